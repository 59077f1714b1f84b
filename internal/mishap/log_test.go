package mishap

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Every panic is counted; the log hears of one a minute.
func TestPanicsAreLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := Log{Logger: slog.New(slog.NewTextHandler(&out, nil))}
		for range 180 {
			if l.Guard("counting", func() { panic("a bug") }) {
				t.Fatal("a panic went unnoticed")
			}
			time.Sleep(time.Second)
		}
		if said := strings.Count(out.String(), "recovered a panic"); l.Count() != 180 || said != 3 {
			t.Errorf("%d counted, %d logged; want 180 and 3", l.Count(), said)
		}
		if !strings.Contains(out.String(), "while=counting panic=\"a bug\" panics=61") || !strings.Contains(out.String(), "log_test.go") {
			t.Errorf("the log does not say what, how often and where:\n%s", out.String())
		}
	})
}

func TestGuardLeavesTheRestAlone(t *testing.T) {
	var l Log
	ran := false
	if !l.Guard("running", func() { ran = true }) || !ran || l.Count() != 0 {
		t.Error("what did not panic was noted")
	}
}

// What runs in the background comes back after a panic, and ends with its context, down or up.
func TestKeepBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Log
		ctx, cancel := context.WithCancel(t.Context())
		starts, start := 0, time.Now()
		l.Keep(ctx, "running", func(ctx context.Context) {
			starts++
			if starts < 3 {
				panic("a bug")
			}
			time.AfterFunc(time.Minute, cancel)
			<-ctx.Done()
		})
		if took := time.Since(start); starts != 3 || took != 2*pause+time.Minute {
			t.Errorf("%d starts in %v, want 3 in %v", starts, took, 2*pause+time.Minute)
		}
		l.Keep(ctx, "running", func(context.Context) { panic("a bug") })
	})
}
