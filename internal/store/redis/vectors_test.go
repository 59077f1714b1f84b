package redis

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/leaseway/leaseway/internal/rate"
)

// vectorScript calls the script's functions in a real Redis, with numbers.
func vectorScript(t *testing.T) func(call string, numbers ...int64) []int64 {
	t.Helper()

	tail, err := os.ReadFile("testdata/vectors.lua")
	if err != nil {
		t.Fatal(err)
	}

	body, err := libraryBody()
	if err != nil {
		t.Fatal(err)
	}

	s := open(t, servers.Prefix(), nil)
	script := rueidis.NewLuaScript(body + string(tail))

	return func(call string, numbers ...int64) []int64 {
		args := []string{call}
		for _, n := range numbers {
			args = append(args, decimal(n))
		}

		texts, err := script.Exec(t.Context(), s.client, []string{"any"}, args).AsStrSlice()
		if err != nil {
			t.Fatalf("%s: %v", call, err)
		}

		got := make([]int64, len(texts))

		for i, text := range texts {
			if got[i], err = strconv.ParseInt(text, 10, 64); err != nil {
				t.Fatal(err)
			}
		}

		return got
	}
}

// The vectors are those of package rate, which has its own types for them.
type (
	vectorFile struct {
		Cases []vectorCase `json:"cases"`
	}
	vectorBucket struct {
		P     int64 `json:"p"`
		Q     int64 `json:"q"`
		Burst int64 `json:"burst"`
	}
	vectorCase struct {
		Name   string       `json:"name"`
		Bucket vectorBucket `json:"bucket"`
		Old    vectorBucket `json:"old"`
		Now    int64        `json:"now"`
		TAT    [2]int64     `json:"tat"`
		N      int64        `json:"n"`
		Limit  int64        `json:"limit"`
		Length int64        `json:"length"`
		Steps  []vectorStep `json:"steps"`
		Want   any          `json:"want"`
	}
	vectorStep struct {
		Now     int64      `json:"now"`
		N       int64      `json:"n"`
		Limit   int64      `json:"limit"`
		Span    [2]int64   `json:"span"`
		Back    int64      `json:"back"`
		OK      bool       `json:"ok"`
		Left    int64      `json:"left"`
		Wait    int64      `json:"wait"`
		Clear   int64      `json:"clear"`
		Window  [3]int64   `json:"window"`
		Entries [][2]int64 `json:"entries"`
		Delay   int64      `json:"delay"`
		TAT     [2]int64   `json:"tat"`
	}
)

func (b vectorBucket) numbers() []int64 { return []int64{b.P, b.Q, b.Burst} }

func vectors(t *testing.T, name string) []vectorCase {
	t.Helper()

	text, err := os.ReadFile(filepath.Join("..", "..", "rate", "testdata", "vectors", name+".json"))
	if err != nil {
		t.Fatal(err)
	}

	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()

	var file vectorFile
	if err := d.Decode(&file); err != nil || len(file.Cases) == 0 {
		t.Fatalf("%s: %d cases, %v", name, len(file.Cases), err)
	}

	return file.Cases
}

// wants returns a number or a list of numbers as a list.
func (v vectorCase) wants(t *testing.T) (list []int64) {
	t.Helper()

	values, many := v.Want.([]any)
	if !many {
		values = []any{v.Want}
	}

	for _, value := range values {
		n, err := value.(json.Number).Int64()
		if err != nil {
			t.Fatal(err)
		}

		list = append(list, n)
	}

	return list
}

func TestVectors(t *testing.T) {
	call := vectorScript(t)

	for file, arguments := range map[string]func(vectorCase) []int64{
		"add":   func(v vectorCase) []int64 { return slices.Concat(v.Bucket.numbers(), v.TAT[:], []int64{v.N}) },
		"avail": func(v vectorCase) []int64 { return slices.Concat(v.Bucket.numbers(), []int64{v.Now}, v.TAT[:]) },
		"wait": func(v vectorCase) []int64 {
			return slices.Concat(v.Bucket.numbers(), []int64{v.Now}, v.TAT[:], []int64{v.N})
		},
		"rebase": func(v vectorCase) []int64 {
			return slices.Concat(v.Bucket.numbers(), []int64{v.Now}, v.TAT[:], v.Old.numbers())
		},
	} {
		for _, v := range vectors(t, file) {
			if got, want := call(file, arguments(v)...), v.wants(t); !slices.Equal(got, want) {
				t.Errorf("%s, %s: %v, want %v", file, v.Name, got, want)
			}
		}
	}
}

func TestTimelineVectors(t *testing.T) {
	call := vectorScript(t)

	for file, algorithm := range map[string]rate.Algorithm{
		"take": rate.TokenBucket, "leaky": rate.LeakyBucket,
		"fixed": rate.FixedWindow, "sliding": rate.SlidingWindow, "log": rate.SlidingLog,
	} {
		for _, v := range vectors(t, file) {
			burst := max(v.Bucket.Burst, v.Limit)
			numbers := []int64{int64(algorithm), v.Bucket.P, v.Bucket.Q, burst, v.Length, int64(len(v.Steps))}

			for _, s := range v.Steps {
				numbers = append(numbers, s.Now, s.N, s.Limit, s.Span[0], s.Span[1], s.Back)
			}

			got := call("timeline", numbers...)
			for i, s := range v.Steps {
				want := s.want(algorithm, got)
				if n := len(want); len(got) < n || !slices.Equal(got[:n], want) {
					t.Fatalf("%s, %s, step %d: %v, want %v", file, v.Name, i, got[:min(n, len(got))], want)
				}

				got = got[len(want):]
			}
		}
	}
}

// want returns what the script should say of a step. What the vector does not
// tell under this algorithm is taken from got, whose first numbers are the step's.
func (s vectorStep) want(algorithm rate.Algorithm, got []int64) (want []int64) {
	const known = 11

	want = slices.Clone(got[:min(known, len(got))])
	if len(want) < known {
		return []int64{-1}
	}

	want[0] = 0
	if s.OK {
		want[0] = 1
	}

	if algorithm == rate.TokenBucket {
		want[5], want[6] = s.TAT[0], s.TAT[1]

		return want
	}

	want[1], want[2] = s.Left, s.Wait

	switch algorithm {
	case rate.LeakyBucket:
		want[5], want[6] = s.TAT[0], s.TAT[1]
		if s.OK {
			want[4] = s.Delay
		}
	case rate.SlidingWindow:
		want[3] = max(s.Clear, 0)
		if s.Clear == 0 {
			want[3] = got[3] // nothing was used: when that has ended does not matter
		}

		copy(want[7:], s.Window[:])
	case rate.FixedWindow:
		copy(want[7:], s.Window[:])
	case rate.SlidingLog:
		want[3], want[10] = s.Clear, int64(len(s.Entries))
		for _, e := range s.Entries {
			want = append(want, e[0], e[1])
		}
	case rate.TokenBucket, rate.Concurrency:
	}

	return want
}
