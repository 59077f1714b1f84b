package cli

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A program such as timeout signals the process and its group: that is one wish to stop, and no reason to lose counts.
func TestASecondSignalCountsOnceTheFirstIsOld(t *testing.T) {
	for _, row := range []struct {
		after, stopping time.Duration // when the second signal comes, and how long the server takes to stop
		want            error
	}{
		{after: 0, stopping: 5 * time.Second},
		{after: hasty, stopping: 5 * time.Second},
		{after: hasty + time.Millisecond, stopping: 5 * time.Second, want: errStoppedAtOnce},
		{after: 6 * time.Second, stopping: 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			signals := make(chan os.Signal, 2)

			go func() {
				signals <- syscall.SIGTERM

				time.Sleep(row.after)

				signals <- syscall.SIGTERM
			}()

			defer time.Sleep(time.Minute) // in the bubble's time: until the server has stopped, too

			err := untilSignalled(t.Context(), signals, func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(row.stopping)

				return nil
			})
			if !errors.Is(err, row.want) {
				t.Errorf("after %v: got %v, want %v", row.after, err, row.want)
			}
		})
	}
}
