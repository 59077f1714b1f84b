package server

import (
	"strconv"
	"strings"
)

// Unfit says why value is none for a setting of this kind (a type of pflag), and what to write instead.
func Unfit(kind, value string) string {
	switch kind {
	case "duration":
		if value != "" && strings.Trim(value, "0123456789.") == "" {
			return "has no unit: write " + value + "ms or " + value + "s"
		}

		return "is no span of time: write a number and a unit, such as 20ms or 1s"
	case "bool":
		return "is neither true nor false"
	case "int", "int64", "uint64":
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			return "is no number: write a whole one, such as 1"
		}

		return "is no whole number that fits: write one such as 1"
	case "float64":
		return "is no number: write one such as 12.5"
	default:
		return "cannot be used: it is a " + kind
	}
}
