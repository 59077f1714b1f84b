package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/leaseway/leaseway/internal/demo"
)

// ended is the error of a command that was told to end, by a signal or because nobody reads what it writes. It exits as a
// shell expects of that signal: 128 and the signal's number.
type ended struct{ by syscall.Signal }

// Error is not printed: whoever ended the command knows.
func (e *ended) Error() string { return "ended: " + e.by.String() }

func (e *ended) status() int {
	const shells = 128

	return shells + int(e.by)
}

// endable returns a context that ends with parent, with cancel, or with the first signal that asks for it, which is its cause
// then, an *ended. Until release is called a reader that is gone is an error of the write, and not the end of the process,
// which would leave children and files behind.
func endable(parent context.Context) (ctx context.Context, cancel context.CancelCauseFunc, release func()) {
	ctx, cancel = context.WithCancelCause(parent)
	asked, broken := make(chan os.Signal, 1), make(chan os.Signal, 1)

	signal.Notify(asked, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	signal.Notify(broken, syscall.SIGPIPE)

	watched := make(chan struct{})

	go func() {
		defer close(watched)

		select {
		case s := <-asked:
			by, _ := s.(syscall.Signal) // all are
			cancel(&ended{by})
		case <-ctx.Done():
		}
	}()

	return ctx, cancel, func() {
		cancel(nil)
		<-watched
		signal.Stop(asked)
		signal.Stop(broken)
	}
}

// outlet writes to w until that fails. It calls failed then, once, and keeps the error.
type outlet struct {
	w      io.Writer
	failed func(error)

	mu  sync.Mutex
	err error
}

// Write writes b, or returns the first error.
func (o *outlet) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()

	if o.err != nil {
		return 0, o.err
	}

	n, err := o.w.Write(b)

	switch {
	case errors.Is(err, syscall.EPIPE):
		o.err = &ended{syscall.SIGPIPE}
	case err != nil:
		o.err = fmt.Errorf("write what the demo shows: %w", err)
	}

	if o.err != nil {
		o.failed(o.err)
	}

	return n, o.err
}

// failure returns the first error, or nil.
func (o *outlet) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()

	return o.err
}

// watcher shows what happens: on the terminal if there is one, else as lines, which do not get between results in JSON.
func watcher(cmd *cobra.Command, out io.Writer, asJSON bool) demo.Watcher {
	if asJSON {
		return demo.NewPlain(cmd.ErrOrStderr())
	}

	in, isFile := cmd.InOrStdin().(*os.File)
	if width := columns(cmd.OutOrStdout()); width > 0 && isFile && term.IsTerminal(int(in.Fd())) {
		return demo.NewTerminal(in, cmd.OutOrStdout())
	}

	return demo.NewPlain(out)
}

// columns returns how wide the terminal is that w writes to; 0 if it is none.
func columns(w io.Writer) int {
	file, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) {
		return 0
	}

	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width <= 0 {
		return demo.UsualWidth
	}

	return width
}

var errPromise = errors.New("a promise was not kept")

// report writes the result to w, which keeps errors, as text of at most width columns, 0 for the usual, or as JSON.
func report(w io.Writer, result *demo.Result, width int, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")

		return e.Encode(result)
	}

	if width == 0 {
		width = demo.UsualWidth
	}

	result.Write(w, width)

	return nil
}
