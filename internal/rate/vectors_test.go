package rate_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/leaseway/leaseway/internal/rate"
)

// vectors is a file of testdata/vectors: what one function says, or one timeline, for
// every implementation of the arithmetic. The expected values were computed with
// exact fractions, not by this package.
type vectors[V any] struct {
	About string `json:"about"`
	Cases []V    `json:"cases"`
}

// vector is one case; a function uses the fields that are its arguments.
type vector struct {
	Name   string          `json:"name"`
	Bucket bucket          `json:"bucket"`
	Old    bucket          `json:"old"`
	Now    int64           `json:"now"`
	TAT    instant         `json:"tat"`
	N      int64           `json:"n"`
	Num    int64           `json:"num"`
	Den    int64           `json:"den"`
	Steps  []taking        `json:"steps"`
	Want   json.RawMessage `json:"want"`
}

type bucket struct {
	P     int64 `json:"p"`
	Q     int64 `json:"q"`
	Burst int64 `json:"burst"`
}

func (b bucket) rate() rate.Bucket { return rate.Bucket{P: b.P, Q: b.Q, Burst: b.Burst} }

// instant is [µs, f].
type instant [2]int64

func (i instant) time() rate.Time { return rate.Time{Micros: i[0], Frac: i[1]} }

type taking struct {
	Now int64   `json:"now"`
	N   int64   `json:"n"`
	OK  bool    `json:"ok"`
	TAT instant `json:"tat"`
}

func TestVectors(t *testing.T) {
	t.Parallel()

	for file, got := range map[string]func(vector) any{
		"add": func(v vector) any { return pair(v.Bucket.rate().Add(v.TAT.time(), v.N)) },
		"avail": func(v vector) any {
			return v.Bucket.rate().Avail(v.Now, v.TAT.time())
		},
		"wait": func(v vector) any {
			return v.Bucket.rate().Wait(v.Now, v.TAT.time(), v.N)
		},
		"rebase": func(v vector) any {
			return pair(v.Bucket.rate().Rebase(v.Now, v.TAT.time(), v.Old.rate()))
		},
		"share": func(v vector) any {
			s := v.Bucket.rate().Share(v.Num, v.Den, v.N)

			return bucket{P: s.P, Q: s.Q, Burst: s.Burst}
		},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()

			for _, v := range load[vector](t, file) {
				said, err := json.Marshal(got(v))
				if err != nil {
					t.Fatal(err)
				}

				if want := compact(t, v.Want); !bytes.Equal(said, want) {
					t.Errorf("%s: %s, want %s", v.Name, said, want)
				}
			}
		})
	}
}

func TestTakeVectors(t *testing.T) {
	t.Parallel()

	for _, v := range load[vector](t, "take") {
		var tat rate.Time

		for i, s := range v.Steps {
			next, ok := v.Bucket.rate().Take(s.Now, tat, s.N)
			if ok != s.OK || next != s.TAT.time() {
				t.Errorf("%s, step %d: %v and tat %v, want %v and %v", v.Name, i, ok, next, s.OK, s.TAT.time())
			}

			tat = next
		}
	}
}

func pair(t rate.Time) instant { return instant{t.Micros, t.Frac} }

func load[V any](t *testing.T, name string) []V {
	t.Helper()

	text, err := os.ReadFile(filepath.Join("testdata", "vectors", name+".json"))
	if err != nil {
		t.Fatal(err)
	}

	var file vectors[V]

	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()

	if err := d.Decode(&file); err != nil || len(file.Cases) == 0 {
		t.Fatalf("%s: %d cases, %v", name, len(file.Cases), err)
	}

	return file.Cases
}

func compact(t *testing.T, raw json.RawMessage) []byte {
	t.Helper()

	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatal(err)
	}

	return b.Bytes()
}
