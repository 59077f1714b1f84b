package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// requireHolderToken is the setting that says whether services and holders without a token are refused.
const requireHolderToken = "requireHolderToken"

const (
	bareFor   = time.Minute // how long somebody is remembered who showed no token
	mostBare  = 256         // addresses that are remembered
	namedBare = 20          // of them and of holders, so many are named
)

// bare remembers the addresses of services that were let in without a token, in memory that is bounded.
type bare struct {
	mu   sync.RWMutex
	seen map[netip.Addr]*atomic.Int64 // when last, µs
}

// note remembers an address. One that finds no room is left out: there are enough to tell of.
func (b *bare) note(addr netip.Addr, now time.Time) {
	b.mu.RLock()
	last := b.seen[addr]
	b.mu.RUnlock()

	if last == nil {
		last = b.add(addr, now)
	}

	if last != nil {
		last.Store(now.UnixMicro())
	}
}

func (b *bare) add(addr netip.Addr, now time.Time) *atomic.Int64 {
	b.mu.Lock()
	defer b.mu.Unlock()

	if len(b.seen) >= mostBare {
		for one, last := range b.seen {
			if !recent(last, now) {
				delete(b.seen, one)
			}
		}
	}

	last := b.seen[addr]
	if last == nil && len(b.seen) < mostBare {
		last = &atomic.Int64{}
		b.seen[addr] = last
	}

	return last
}

func recent(last *atomic.Int64, now time.Time) bool {
	return now.Sub(time.UnixMicro(last.Load())).Abs() < bareFor // what is ahead is from before the clock was set back
}

// lately are the addresses of the last minute, in order.
func (b *bare) lately(now time.Time) (list []netip.Addr) {
	b.mu.RLock()
	defer b.mu.RUnlock()

	for addr, last := range b.seen {
		if recent(last, now) {
			list = append(list, addr)
		}
	}

	slices.SortFunc(list, netip.Addr.Compare)

	return list
}

// Bare notes that a service was let in without a token, by its address: it would be shut out if one were required.
func (d *Door) Bare(addr netip.Addr) { d.bare.note(addr, d.config.Now()) }

// Without says how many holders and services showed no token lately, although there are tokens for them: those who
// have to be given one before it is required. It is none where it is required, and where there are no such tokens.
func (d *Door) Without(ctx context.Context) (holders, services int) {
	book := d.callersNow()
	if book == nil || d.config.Callers != nil || !book.holders() || book.required() {
		return 0, 0
	}

	roster, err := d.config.Fleet.Instances(ctx)
	if err != nil {
		return 0, 0
	}

	for _, one := range roster.Instances {
		if one.Bare {
			holders++
		}
	}

	return holders, len(d.bare.lately(d.config.Now()))
}

// without names who showed no token lately, as far as this server knows: holders, and the addresses of services.
func (d *Door) without(ctx context.Context) ([]string, error) {
	if d.config.Callers != nil {
		return nil, nil // they need one already
	}

	roster, err := d.config.Fleet.Instances(ctx)
	if err != nil {
		return nil, explain(err, false)
	}

	var names []string

	for _, one := range roster.Instances {
		if one.Bare {
			names = append(names, cmp.Or(one.Name, "a holder without a name, "+strconv.FormatUint(one.Incarnation, 16)))
		}
	}

	for _, addr := range d.bare.lately(d.config.Now()) {
		names = append(names, "a service at "+addr.String())
	}

	if more := len(names) - namedBare; more > 0 {
		names = append(names[:namedBare:namedBare], fmt.Sprintf("%d more", more))
	}

	return names, nil
}

// notShutOut refuses a change of settings by which some would be shut out that are at work.
func (d *Door) notShutOut(ctx context.Context, state *rulestore.State, value []byte) error {
	after := &rulestore.State{Settings: mapsWith(state.Settings, []rulestore.SettingChange{{Name: requireHolderToken, Value: value}})}
	if newTokenBook(state).required() || !newTokenBook(after).required() {
		return nil
	}

	names, err := d.without(ctx)
	if err != nil || len(names) == 0 {
		return err
	}

	return refuse(http.StatusConflict, "this would shut out who shows no token: %s. Give them one first "+
		"(leaseway token create --role holder), or shut them out with force=true", strings.Join(names, ", "))
}
