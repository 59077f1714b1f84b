package rule

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestConcurrencyIsReadAndWritten(t *testing.T) {
	set, err := Parse("rules.yaml", []byte(`rules:
  - {id: plain, algorithm: concurrency, limit: 5}
  - id: full
    algorithm: concurrency
    keyBy: user
    limit: 8
    cost: 2
    queue: {size: 100, wait: 1.5s}
    lease: {ttl: 30s}
    overrides: [{key: acme, limit: 50}]`))
	if err != nil {
		t.Fatal(err)
	}
	plain, full := set.Rule("plain"), set.Rule("full")
	if plain.Limit != 5 || plain.Burst != 5 || plain.Window != 0 || plain.LeaseTTL != 10*time.Second || plain.Queue != (Queue{}) {
		t.Errorf("plain: %+v", plain)
	}
	if full.Queue != (Queue{Size: 100, Wait: 1500 * time.Millisecond}) || full.LeaseTTL != 30*time.Second || full.Cost.Tokens != 2 {
		t.Errorf("full: %+v", full)
	}
	if q := full.Quota([]byte("acme")); q.Limit != 50 || q.Burst != 50 || !q.Overridden {
		t.Errorf("the override: %+v", q)
	}
	again, err := Parse("again", set.Marshal())
	if err != nil || !bytes.Equal(again.Marshal(), set.Marshal()) {
		t.Errorf("written and read again: %v\n%s\n%s", err, set.Marshal(), again.Marshal())
	}
	half, err := Parse("rules.yaml", []byte("rules: [{id: a, algorithm: concurrency, limit: 5, lease: {ttl: 20s}, rollout: 50, before: {limit: 3}}]"))
	if err != nil {
		t.Fatal(err)
	}
	if b := half.Rule("a").Before; b.Limit != 3 || b.Burst != 3 || b.LeaseTTL != 20*time.Second {
		t.Errorf("the version before: %+v", b)
	}
	for _, absent := range []string{"window", "burst", `"ttl":"10s"`} {
		if strings.Contains(string(set.Marshal()), absent) {
			t.Errorf("%s is written, and means nothing: %s", absent, set.Marshal())
		}
	}
}
