package rule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway/rule"
)

func TestARequestLimitIsInItsKeyAndNoTwoRequestsShareOne(t *testing.T) {
	t.Parallel()

	entries := func(pairs ...string) (list []rule.Entry) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, rule.Entry{Key: pairs[i], Value: pairs[i+1]})
		}

		return list
	}
	long := strings.Repeat("v", 64<<10)
	minute := rule.RequestLimit{Requests: 5, Window: time.Minute}
	seen := map[string]int{}

	for i, req := range []rule.Request{
		{Limit: &minute},
		{Limit: &minute, Domain: "d"},
		{Limit: &minute, Domain: "e"},
		{Limit: &minute, Domain: "d", Entries: entries("", "")},
		{Limit: &minute, Domain: "d", Entries: entries("a", "b")},
		{Limit: &minute, Domain: "d", Entries: entries("b", "a")},
		{Limit: &minute, Domain: "d", Entries: entries("ab", "")},
		{Limit: &minute, Domain: "d", Entries: entries("", "ab")},
		{Limit: &minute, Domain: "d", Entries: entries("a", "1 b")},
		{Limit: &minute, Domain: "d", Entries: entries("a", "b", "", "")},
		{Limit: &minute, Domain: "d", Entries: entries("a", long+"1")},
		{Limit: &minute, Domain: "d", Entries: entries("a", long+"2")},
		{Limit: &rule.RequestLimit{Requests: 6, Window: time.Minute}, Domain: "d", Entries: entries("a", "b")},
		{Limit: &rule.RequestLimit{Requests: 5, Window: time.Hour}, Domain: "d", Entries: entries("a", "b")},
		{Limit: &rule.RequestLimit{Requests: 6, Window: time.Minute}, Domain: "d", Entries: entries("a", long+"1")},
		{Limit: &rule.RequestLimit{Requests: rule.MaxCost, Window: 366 * 24 * time.Hour}, Domain: "d", Entries: entries("a", long)},
	} {
		key := rule.AppendRequestKey([]byte("what was there"), &req)[len("what was there"):]
		if other, twice := seen[string(key)]; twice {
			t.Errorf("requests %d and %d spend one budget, %q", other, i, key)
		}

		seen[string(key)] = i

		if !rule.IsCompact(string(key)) {
			t.Errorf("request %d: the key of %d bytes is too long: its limit would be lost", i, len(key))
		}

		if q := rule.RequestLimits().Quota(key); q.Limit != req.Limit.Requests || q.Burst != q.Limit || q.Window != req.Limit.Window || !q.Overridden {
			t.Errorf("request %d: its key may spend %+v, want %+v", i, q, *req.Limit)
		}
	}
}

func TestRequestLimitsHaveBounds(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		limit *rule.RequestLimit
		want  bool
	}{
		{nil, false},
		{&rule.RequestLimit{}, false},
		{&rule.RequestLimit{Requests: 1}, false},
		{&rule.RequestLimit{Requests: 0, Window: time.Second}, true},
		{&rule.RequestLimit{Requests: -1, Window: time.Second}, false},
		{&rule.RequestLimit{Requests: rule.MaxCost, Window: time.Millisecond}, true},
		{&rule.RequestLimit{Requests: rule.MaxCost + 1, Window: time.Millisecond}, false},
		{&rule.RequestLimit{Requests: 1, Window: time.Millisecond - time.Microsecond}, false},
		{&rule.RequestLimit{Requests: 1, Window: 366 * 24 * time.Hour}, true},
		{&rule.RequestLimit{Requests: 1, Window: 366*24*time.Hour + time.Millisecond}, false},
		{&rule.RequestLimit{Requests: 1, Window: time.Second + time.Nanosecond}, false},
	} {
		if got := c.limit.Valid(); got != c.want {
			t.Errorf("%+v is valid: %v, want %v", c.limit, got, c.want)
		}
	}

	for _, key := range []string{"", ":", "/", "5/:", "0/60000000:", "-1/60000000:", "5/1:", "5/99999999999999999999:", "1099511627777/60000000:", "5/60000000000000:"} {
		if q := rule.RequestLimits().Quota([]byte(key)); q.Overridden {
			t.Errorf("the key %q brings %+v", key, q)
		}
	}
}

func TestHasDomain(t *testing.T) {
	t.Parallel()

	set, err := rule.Parse("rules", []byte("rules: [{id: a, scope: {domain: edge}, limit: 1, window: 1s}, {id: b, limit: 1, window: 1s}]"))
	if err != nil {
		t.Fatal(err)
	}

	for domain, want := range map[string]bool{"edge": true, "": false, "Edge": false, "other": false} {
		if set.HasDomain(domain) != want || set.Next(nil, 1).HasDomain(domain) != want {
			t.Errorf("%q: want %v", domain, want)
		}
	}

	if (&rule.Set{}).HasDomain("edge") {
		t.Error("a set without rules has a domain")
	}
}
