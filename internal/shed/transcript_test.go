package shed

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write what came into the transcripts")

// A transcript tells what happens to the load, and shows what is shed. Lines
// that begin with > are what came:
//
//	config high=90% low=75% rise=2s fall=10s stale=5s
//	load 95% for 4s
//	> 1s  load 95%  S 0.50  test 50% dropped, read 0%, write 0%
//
// A load of ? is not known. "sawtooth 80% 100% for 5s" goes from one to the
// other every 100 ms; every step is 100 ms, of which each tenth is shown.
func TestTranscripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) < 7 {
		t.Fatalf("only %d transcripts, %v: a moved directory would pass unseen", len(paths), err)
	}

	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}

		got, err := play(string(text))
		if err != nil {
			t.Errorf("%s: %v", path, err)

			continue
		}

		if *update {
			if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		} else if got != string(text) {
			t.Errorf("%s\ngot:\n%s\nwant:\n%s", path, got, text)
		}
	}
}

const (
	stepEvery = 100_000 // µs
	showEvery = 10      // steps
)

// player is a worker in virtual time.
type player struct {
	config Config
	worker Worker
	now    int64
	out    strings.Builder
}

// play runs a transcript and returns it with what came.
func play(text string) (string, error) {
	p := &player{}

	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, ">") {
			continue
		}

		fmt.Fprintln(&p.out, line)

		if err := p.do(strings.Fields(line)); err != nil {
			return "", fmt.Errorf("%s: %w", line, err)
		}
	}

	return p.out.String(), nil
}

var errWords = errors.New("cannot be read")

func (p *player) do(words []string) error {
	switch {
	case len(words) == 0 || words[0] == "#":
		return nil
	case words[0] == "config":
		return p.configure(words[1:])
	case words[0] == "load" && len(words) == 4:
		return p.run(words[1:2], words[3])
	case words[0] == "sawtooth" && len(words) == 5:
		return p.run(words[1:3], words[4])
	default:
		return errWords
	}
}

func (p *player) configure(words []string) error {
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		span := map[string]*int64{
			"rise": &p.config.Rise, "fall": &p.config.Fall, "stale": &p.config.Stale, "hold": &p.config.Hold,
		}[name]
		share := map[string]*float64{"high": &p.config.High, "low": &p.config.Low}[name]

		switch {
		case span != nil:
			d, err := time.ParseDuration(value)
			if err != nil {
				return err
			}

			*span = d.Microseconds()
		case share != nil:
			var err error
			if *share, err = parseLoad(value); err != nil {
				return err
			}
		default:
			return errWords
		}
	}

	return nil
}

func parseLoad(text string) (float64, error) {
	if text == "?" {
		return math.NaN(), nil
	}

	n, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)

	return n / 100, err
}

// run lets the loads follow each other for a time.
func (p *player) run(loads []string, span string) error {
	d, err := time.ParseDuration(span)
	if err != nil {
		return err
	}

	for i := range d.Microseconds() / stepEvery {
		load, err := parseLoad(loads[int(i)%len(loads)])
		if err != nil {
			return err
		}

		p.now += stepEvery
		p.worker.Step(p.now, p.config, load)

		if p.now/stepEvery%showEvery == 0 {
			p.show()
		}
	}

	return nil
}

func (p *player) show() {
	s := p.worker.Level()
	fmt.Fprintf(&p.out, "> %3ds  load %3.0f%%  S %.2f", p.now/1_000_000, 100*p.worker.Load(), s)

	if p.worker.Stale() {
		fmt.Fprintln(&p.out, "  stale: nothing is shed")

		return
	}

	fmt.Fprintf(&p.out, "  dropped: test %3.0f%%, read %3.0f%%, write %3.0f%%\n", 100*Chance(s, 0), 100*Chance(s, 1), 100*Chance(s, 2))
}
