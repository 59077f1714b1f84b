package load

import (
	"math"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAMeterAveragesOverTheTimeBetweenReads(t *testing.T) {
	t.Parallel()

	var m Meter

	m.Read(0)
	m.Begin(100, 30)
	m.Begin(200, 50)
	m.End(400)

	if got := m.Read(500); got.Busy != (100+2*200+100)/500.0 || got.Wait != 40 {
		t.Errorf("got %+v, want 1.2 under way and a wait of 40 µs", got)
	}

	// One is still under way, and nobody began.
	if got := m.Read(600); got.Busy != 1 || !math.IsNaN(got.Wait) {
		t.Errorf("got %+v", got)
	}

	m.End(600)

	if got := m.Read(700); got.Busy != 0 || got.Wait != 0 {
		t.Errorf("got %+v when idle", got)
	}

	if got := m.Read(700); got.Busy != 0 {
		t.Errorf("got %+v without time", got)
	}
}

// A request may wait before it begins, and again behind that for a worker: the means add up, whoever had its turn when.
func TestAMeterAddsTheWaitForATurn(t *testing.T) {
	t.Parallel()

	var m Meter

	m.Begin(100, 10)
	m.Begin(100, 30)
	m.Waited(500)

	if got := m.Read(1000); got.Wait != 20+500 {
		t.Errorf("got %+v, want a wait of 20 µs and 500 µs", got)
	}

	m.Waited(300)
	m.Waited(-1)

	if got := m.Read(2000); got.Wait != 150 || got.Busy != 2 {
		t.Errorf("got %+v when nobody began and two had their turn", got)
	}

	if got := m.Read(3000); !math.IsNaN(got.Wait) {
		t.Errorf("got %+v when nobody had a turn", got)
	}
}

// Clocks are read before the lock is had, and a request may end that never began.
func TestAMeterBearsDisorder(t *testing.T) {
	t.Parallel()

	var m Meter

	m.Begin(200, -5)
	m.Begin(100, 0)
	m.End(50)
	m.End(300)
	m.End(300)

	if got := m.Read(400); got.Busy != 100.0/400 || got.Wait != 0 {
		t.Errorf("got %+v", got)
	}

	m.Begin(400, 0)

	if got := m.Read(500); got.Busy != 1 {
		t.Errorf("one more end than beginnings is remembered: %+v", got)
	}
}

func TestAMeterIsSafeForManyAtOnce(t *testing.T) {
	t.Parallel()

	var (
		m  Meter
		wg sync.WaitGroup
	)

	for range 8 {
		wg.Go(func() {
			for i := range int64(1000) {
				m.Begin(i, 1)
				m.Read(i)
				m.End(i)
			}
		})
	}

	wg.Wait()

	if got := m.Read(2000); got.Busy != 0 {
		t.Errorf("%v are under way in the end", got.Busy)
	}
}

func BenchmarkMeter(b *testing.B) {
	var m Meter

	b.ReportAllocs()

	for i := int64(0); b.Loop(); i++ {
		m.Begin(i, 0)
		m.End(i)
	}
}
