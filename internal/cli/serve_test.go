package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/server"
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

// What the standard library says by the log of the process has the form that was asked for.
func TestTheLogOfTheProcessIsLikeTheOthers(t *testing.T) {
	before, flags, out := slog.Default(), log.Flags(), log.Writer()

	t.Cleanup(func() {
		slog.SetDefault(before)
		log.SetFlags(flags)
		log.SetOutput(out)
	})

	var (
		stderr bytes.Buffer
		line   map[string]any
	)

	const said = "Unsolicited response received on idle HTTP channel"

	settings, cmd := server.NewProxySettings(), &cobra.Command{}
	if err := settings.Flags().Parse([]string{"--upstream", "http://127.0.0.1:1", "--rules", "r.yaml", "--log-format", "json"}); err != nil {
		t.Fatal(err)
	}

	cmd.SetErr(&stderr)
	cmd.SetContext(t.Context())

	err := serveUntilStopped(cmd, settings, func(context.Context, server.Config) error {
		log.Print(said)

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	if err := json.Unmarshal(stderr.Bytes(), &line); err != nil || line["level"] != "INFO" || line["msg"] != said {
		t.Errorf("%v: the log says %s", err, stderr.String())
	}
}
