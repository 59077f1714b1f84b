package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/redis"
	"github.com/leaseway/leaseway/rule"
)

// key returns the ledger that is asked for, and the rules if there are any.
func (f *keysShow) key(id string, parts []string) (store.Key, *rule.Set, error) {
	var set *rule.Set

	key := strings.Join(parts, "")

	switch {
	case f.rules != "":
		text, err := readAtMost(f.rules, rule.MaxDocument)
		if err != nil {
			return store.Key{}, nil, err
		}

		if set, err = rule.Parse(f.rules, text); err != nil {
			return store.Key{}, nil, err
		}

		if key, err = keyUnder(set.Rule(id), id, parts); err != nil {
			return store.Key{}, nil, err
		}
	case len(parts) > 1:
		return store.Key{}, nil, errors.New("a KEY of several parts needs --rules, which says how they make one key")
	}

	if key = rule.Compact(key); f.test {
		key = rule.TestKey(key)
	}

	return store.Key{Rule: id, Key: key}, set, nil
}

// keyUnder makes the key of a request whose attributes are parts.
func keyUnder(r *rule.Rule, id string, parts []string) (string, error) {
	if r == nil {
		return "", fmt.Errorf("there is no rule %q in --rules (ids are case-sensitive)", id)
	}

	want := r.KeyBy
	if len(want) == 1 && want[0].Kind == rule.KeyGlobal {
		want = nil
	}

	if len(parts) != len(want) {
		return "", fmt.Errorf("rule %q has a key of %d parts (keyBy: %v), and %d were given: write one argument for each",
			id, len(want), r.KeyBy, len(parts))
	}

	request := rule.Request{Headers: map[string][]string{}, Descriptors: map[string]string{}}

	for i, part := range want {
		text := parts[i]

		switch part.Kind {
		case rule.KeyGlobal:
		case rule.KeyUser:
			request.User = text
		case rule.KeyAPIKey:
			request.APIKey = text
		case rule.KeyHeader:
			request.Headers[part.Name] = []string{text}
		case rule.KeyDescriptor:
			request.Descriptors[part.Name] = text
		case rule.KeyEndpoint:
			request.Method, request.Path, _ = strings.Cut(text, " ")
		case rule.KeyIP:
			ip, err := netip.ParseAddr(text)
			if err != nil {
				return "", fmt.Errorf("%q is no address, which rule %q has for a key: %w", text, id, err)
			}

			request.IP = ip
		}
	}

	key, status := r.AppendKey(nil, &request)
	if status != rule.KeyReady {
		return "", fmt.Errorf("rule %q does not count a request with an empty part of its key", id)
	}

	return string(key), nil
}

// showKey reads a ledger, and says what it comes to now.
func showKey(ctx context.Context, config *redis.Config, set *rule.Set, key store.Key) (*shownKey, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()

	reader, err := redis.NewReader(ctx, *config)
	if err != nil {
		return nil, fmt.Errorf("%w (--store names it; leaseway doctor with the same --store flags says what to do)", err)
	}
	defer reader.Close()

	found, err := reader.Ledger(ctx, key)
	if err != nil {
		return nil, err
	}

	s := found.State
	if found.Kept == redis.KeptNowhere && set != nil {
		terms, ok := coordinator.TermsOf(set, key.Rule, key.Key, time.UnixMicro(found.Now))
		if !ok {
			return nil, fmt.Errorf("rule %q blocks this key: it has no ledger", key.Rule)
		}

		s.Terms = terms
		if found.Lost > 0 && !terms.Whole {
			s.Begin(terms, found.Lost)
		}
	}

	s.Expire(found.Now)

	return newShownKey(key, found, &s), nil
}

// lookWithin bounds how long a command waits for Redis.
const lookWithin = 10 * time.Second

// shownKey is a ledger, for people and programs. Times are in UTC; a time that there is none of is left out.
type shownKey struct {
	Rule         string       `json:"rule"`
	Key          string       `json:"key"`
	Known        bool         `json:"known"` // Redis has it, or the rules say what a missing one is
	Tokens       int64        `json:"tokens"`
	LastRefillTS string       `json:"lastRefillTs,omitempty"`
	Capacity     int64        `json:"capacity"`
	Leased       int64        `json:"leased"`
	Algorithm    string       `json:"algorithm"`
	Version      uint64       `json:"version"`
	At           string       `json:"at"`
	FullAt       string       `json:"fullAt,omitempty"`
	LostAt       string       `json:"lostAt,omitempty"`
	Leases       []shownLease `json:"leases"`
	Redis        shownPlace   `json:"redis"`
}

// shownLease is what one holder has. A holder is told apart by a random number that it drew at its start.
type shownLease struct {
	Holder  string `json:"holder"`
	Left    int64  `json:"left"`
	Granted int64  `json:"granted,omitempty"`
	Spent   int64  `json:"spent,omitempty"`
	Expires string `json:"exp"`
	Version uint64 `json:"version"`
}

// shownPlace is where Redis has it.
type shownPlace struct {
	Kept    string `json:"kept"` // nowhere, group or held
	Key     string `json:"key"`
	Field   string `json:"field,omitempty"` // base64
	Mark    string `json:"mark"`
	Slot    int    `json:"slot"`
	LivesMS int64  `json:"livesMs,omitempty"`
}

func newShownKey(key store.Key, found *redis.Found, s *ledger.State) *shownKey {
	v := &shownKey{
		Rule: key.Rule, Known: s.Terms.Bucket.Burst > 0, Version: s.Terms.Version, Leased: s.Outstanding(), At: instant(found.Now),
		LostAt: instant(found.Lost), Leases: []shownLease{},
		Redis: shownPlace{
			Kept: found.Kept, Key: found.Key, Field: base64.StdEncoding.EncodeToString([]byte(found.Field)), Mark: found.Mark,
			Slot: found.Slot, LivesMS: found.Lives,
		},
	}

	if v.Redis.Kept == redis.KeptNowhere {
		v.Redis.Kept = "nowhere"
	}

	if v.Known {
		v.Algorithm = rule.Algorithm(s.Terms.Algorithm).String()
		v.Capacity, v.Tokens, v.LastRefillTS = s.Terms.Bucket.Burst, s.Avail(), instant(s.Refilled())

		if s.Terms.Algorithm != rate.Concurrency && v.Tokens < v.Capacity {
			v.FullAt = instant(s.Clear())
		}
	}

	for _, l := range s.Leases {
		v.Leases = append(v.Leases, shownLease{
			Holder: holderText(l.Holder), Left: l.Granted - l.Spent, Granted: l.Granted, Spent: l.Spent,
			Expires: instant(l.Exp), Version: l.Version,
		})
	}

	for _, h := range s.Slots.Holdings {
		v.Leased += h.Slots
		v.Leases = append(v.Leases, shownLease{Holder: holderText(h.Holder), Left: h.Slots, Expires: instant(h.Exp), Version: h.Version})
	}

	return v
}

func holderText(holder uint64) string { return fmt.Sprintf("%016x", holder) }

// instant is a time as text, "" for none.
func instant(micros int64) string {
	if micros == 0 {
		return ""
	}

	return time.UnixMicro(micros).UTC().Format("2006-01-02T15:04:05.000000Z07:00")
}
