package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// ticks of the kernel's clock in a second, as /proc counts them.
const ticks = 100

// usedBy is the processor time that processes have used so far.
func usedBy(processes []*exec.Cmd) (sum time.Duration) {
	for _, p := range processes {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid)) // one that is gone has used none since
		_, after, _ := strings.Cut(string(text), ") ")

		fields := strings.Fields(after)
		if len(fields) < 13 {
			continue
		}

		for _, field := range fields[11:13] { // utime and stime
			n, _ := strconv.Atoi(field)
			sum += time.Duration(n) * time.Second / ticks
		}
	}

	return sum
}
