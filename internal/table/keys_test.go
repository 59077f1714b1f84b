package table

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/rule"
)

// A key of any length finds its entry, and no other: short ones are kept and compared in another way than long ones.
func TestAKeyOfAnyLengthIsFound(t *testing.T) {
	t.Parallel()

	var k keys

	k.init(newSecret())

	for n := range rule.MaxKey + 1 {
		key := strings.Repeat("k", n)

		e := k.add(keyed(key))
		if e.key() != key || k.find(key) != e || k.add(keyed(key)) != e {
			t.Errorf("%d bytes: the entry of %q is not found", n, e.key())
		}

		for i := range n {
			if other := key[:i] + "K" + key[i+1:]; k.find(other) != nil || e.is(k.secret.seek(other), other) {
				t.Errorf("%d bytes: %q is taken for another key", n, other)
			}
		}
	}

	// What is in the entry of a long key is no key itself.
	for _, n := range []int{shortKey, shortKey + 1, rule.MaxKey} {
		e := keyed(strings.Repeat("k", n))
		if inside := string(e.short[:]); e.is(k.secret.seek(inside), inside) || e.is(k.secret.seek(inside[:shortKey-1]), inside[:shortKey-1]) {
			t.Errorf("the entry of %d bytes answers to what it has inside", n)
		}
	}
}

// Whatever comes and goes, the table has what a map has.
func TestKeysAreAMap(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		var k keys

		k.init(newSecret())

		twin := map[string]*name{}
		key := rapid.Custom(func(t *rapid.T) string {
			// Few, so that they come again; the empty one and long ones among them.
			n := rapid.IntRange(0, 40).Draw(t, "n")
			if n == 0 {
				return ""
			}

			return strings.Repeat("k", n/20*rule.MaxKey/3) + strconv.Itoa(n)
		})

		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			name := key.Draw(t, "key")

			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				e := keyed(name)

				got := k.add(e)
				if twin[name] == nil {
					twin[name] = e
				}

				if got != twin[name] {
					t.Fatalf("add(%q) returned %p, want %p", name, got, twin[name])
				}
			case 1:
				e := twin[name]
				if e == nil {
					e = keyed(name)
				}

				if got, want := k.remove(e), twin[name] != nil; got != want {
					t.Fatalf("remove(%q): %v, want %v", name, got, want)
				}

				delete(twin, name)
			default:
				if got := k.find(name); got != twin[name] {
					t.Fatalf("find(%q) returned %p, want %p", name, got, twin[name])
				}
			}
		}

		found := 0

		k.all(func(e *name) {
			found++

			if twin[e.key()] != e {
				t.Errorf("all: %q is %p, want %p", e.key(), e, twin[e.key()])
			}
		})

		if found != len(twin) {
			t.Errorf("all: %d entries, want %d", found, len(twin))
		}
	})
}

// Keys that come and go need no more slots than there are keys at a time, and a part that was large is small again.
func TestSlotsOfKeysAreUsedAgain(t *testing.T) {
	t.Parallel()

	const stay, turns = 70 * keyParts, 200

	var k keys

	k.init(newSecret())

	slots := func() (n int) {
		for i := range k.parts {
			if t := k.parts[i].table.Load(); t != nil {
				n += len(t.lines) * lineSlots
			}
		}

		return n
	}

	for i := range stay {
		k.add(keyed("stays " + strconv.Itoa(i)))
	}

	before := slots()

	anew := 0

	for i := range turns * keyParts {
		e := keyed("comes " + strconv.Itoa(i))
		table := &k.parts[k.secret.seek(e.key()).hash>>partShift].table
		old := table.Load()

		k.add(e)

		if table.Load() != old {
			anew++
		}

		if !k.remove(e) || k.find(e.key()) != nil {
			t.Fatalf("%q is not removed", e.key())
		}
	}

	for i := range stay {
		if key := "stays " + strconv.Itoa(i); k.find(key) == nil {
			t.Errorf("%q is not found", key)
		}
	}

	if n := slots(); n > before*5/4 || anew > 2*keyParts { // a part or other was nearly full
		t.Errorf("%d slots for %d keys, and %d before others came and went, for whom %d parts were made anew", n, stay, before, anew)
	}

	var many []*name

	for i := range 20 * stay {
		many = append(many, k.add(keyed("many "+strconv.Itoa(i))))
	}

	for _, e := range many {
		k.remove(e)
	}

	if n := slots(); n > stay*100/keysFew+keyParts*lineSlots {
		t.Errorf("%d slots for %d keys after many others left", n, stay)
	}
}

// A key that is in all the time is found all the time, whatever others do around it.
func TestKeysAreFoundWhileOthersComeAndGo(t *testing.T) {
	t.Parallel()

	var (
		k    keys
		wg   sync.WaitGroup
		stay = make([]*name, 64)
	)

	k.init(newSecret())

	for i := range stay {
		stay[i] = k.add(keyed("stays-" + strconv.Itoa(i)))
	}

	for w := range 4 {
		wg.Go(func() {
			for i := range 20_000 {
				e := keyed(strconv.Itoa(w) + "-" + strconv.Itoa(i%300))

				if k.add(e) == e && !k.remove(e) {
					t.Errorf("%q was put in and is not there", e.key())
				}

				s := stay[i%len(stay)]
				if got := k.find(s.key()); got != s {
					t.Errorf("%q: found %p, want %p", s.key(), got, s)
				}
			}
		})
	}

	wg.Wait()

	left := 0
	k.all(func(*name) { left++ })

	if left != len(stay) {
		t.Errorf("%d entries left, want %d", left, len(stay))
	}
}

func keyed(key string) *name {
	e := &Entry{}
	e.setKey(key)

	return &e.name
}
