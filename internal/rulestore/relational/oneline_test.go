package relational_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/leaseway/leaseway/internal/rulestore/relational"
)

func TestAnErrorIsOneLineInWhichNothingIsSaidTwice(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"refused": "refused",
		"cannot connect:\n\ta:1: dial: refused\n\ta:1: dial: refused": "cannot connect: a:1: dial: refused",
		"cannot connect:\n\ta:1: no TLS\n\ta:1: no such role\n":       "cannot connect: a:1: no TLS; a:1: no such role",
	} {
		got := relational.OneLine(fmt.Errorf("%s%w", in, emptyError{io.EOF}))
		if got.Error() != want || !errors.Is(got, io.EOF) {
			t.Errorf("%q is %q, want %q; its cause is kept: %v", in, got, want, errors.Is(got, io.EOF))
		}
	}
	if relational.OneLine(nil) != nil {
		t.Error("there is an error where there was none")
	}
}

// emptyError is a cause without words.
type emptyError struct{ cause error }

func (emptyError) Error() string   { return "" }
func (e emptyError) Unwrap() error { return e.cause }
