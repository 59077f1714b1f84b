package coordinator

import (
	"context"
	"strings"
	"testing"
	"unsafe"
)

// none is a source without overrides for the keys that are asked for.
type none struct{}

func (none) Overrides(context.Context, string, []string) (map[string]Override, error) {
	return map[string]Override{}, nil
}
func (none) Any(context.Context, string) (bool, error) { return true, nil }

// Keys and rules of asks are parts of messages, which may have megabytes: what is remembered of a key must not keep all of it.
func TestWhatIsRememberedIsNoPartOfAMessage(t *testing.T) {
	t.Parallel()

	o := NewOverrides(none{}, nil, nil)
	message := strings.Repeat("rule key ", 3)
	asked := func() wanted { return want(message[:4], message[5:8], 0) }

	within := func(text string) bool {
		at, from := uintptr(unsafe.Pointer(unsafe.StringData(text))), uintptr(unsafe.Pointer(unsafe.StringData(message)))

		return at >= from && at < from+uintptr(len(message))
	}
	look := func(when string) {
		t.Helper()

		kept := 0

		for i := range o.keys.shards {
			for _, half := range []map[overrideID]remembered{o.keys.shards[i].young, o.keys.shards[i].old} {
				for id := range half {
					kept++

					if within(id.rule) || within(id.key) {
						t.Errorf("%s: the message is kept with %s of %s", when, id.key, id.rule)
					}
				}
			}
		}

		o.rules.Range(func(id string, _ *overridden) bool {
			if within(id) {
				t.Errorf("%s: the message is kept with %s", when, id)
			}

			return true
		})

		if kept != 1 {
			t.Errorf("%s: %d keys are remembered, want 1", when, kept)
		}
	}

	o.learn([]wanted{asked()}, make([]remembered, 1))
	o.Wait()
	look("once looked up")

	for i := range o.keys.shards { // as when newer keys came
		s := &o.keys.shards[i]
		s.young, s.old = nil, s.young
	}

	o.learn([]wanted{asked()}, make([]remembered, 1))
	o.Wait()
	look("found again")
}
