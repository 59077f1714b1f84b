package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/redis"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
	"github.com/leaseway/leaseway/rule"
)

// invoke runs a command, and returns its exit status and what it wrote.
func invoke(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()

	var out, err bytes.Buffer

	status = Main(args, strings.NewReader(""), &out, &err)

	return status, out.String(), err.String()
}

func inFile(t *testing.T, name, text string) string {
	t.Helper()

	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	return path
}

const shownRules = `
rules:
  - {id: bucket, keyBy: user, limit: 10, window: 1h, normalize: [casefold]}
  - {id: pair, keyBy: [ip, endpoint], scope: "/v1/**", limit: 20, window: 1h}
  - {id: all, limit: 30, window: 1h}
  - {id: closed, keyBy: user, block: true}
  - {id: hidden, keyBy: apikey, limit: 5, window: 1h, secret: true}
`

// What was charged to a key is seen by whoever knows the key, in each form, and nothing changes.
func TestKeysShow(t *testing.T) {
	server := redistest.NewServer(t)
	url := "redis://" + server.Address
	rules := inFile(t, "rules.yaml", shownRules)

	kept, err := redis.New(t.Context(), redis.Config{Addresses: []string{server.Address}})
	if err != nil {
		t.Fatal(err)
	}

	defer kept.Close(context.Background())

	charge := func(id, key string, burst int64, ask ledger.Ask) {
		t.Helper()

		bucket, err := rate.NewBucket(burst, 3_600_000_000, burst)
		if err != nil {
			t.Fatal(err)
		}

		results := make([]store.Result, 1)
		ask.Holder, ask.Seq = 0xabc, 1
		kept.Apply(t.Context(), []store.Op{{
			Key: store.Key{Rule: id, Key: rule.Compact(key)}, Terms: ledger.Terms{Bucket: bucket, Version: 77, TTL: 60_000_000}, Ask: ask,
		}}, results)

		if results[0].Err != nil {
			t.Fatal(results[0].Err)
		}
	}
	long := strings.Repeat("k", 1000)

	charge("bucket", "ada", 10, ledger.Ask{Takes: []int64{3}})
	charge("bucket", "bea", 10, ledger.Ask{RaiseTo: 4})
	charge("bucket", long, 10, ledger.Ask{Takes: []int64{9}})
	charge("pair", `203.0.113.7|GET /v1/**`, 20, ledger.Ask{Takes: []int64{5}})
	charge("all", "", 30, ledger.Ask{Takes: []int64{7}})

	for _, test := range []struct {
		args                     []string
		tokens, capacity, leased int64
		kept                     string
	}{
		{[]string{"bucket", "ada"}, 7, 10, 0, "group"},
		{[]string{"--rules", rules, "bucket", "ADA"}, 7, 10, 0, "group"},
		{[]string{"bucket", "bea"}, 6, 10, 4, "held"},
		{[]string{"bucket", long}, 1, 10, 0, "group"},
		{[]string{"--rules", rules, "pair", "203.0.113.7", "GET /v1/x/y"}, 15, 20, 0, "group"},
		{[]string{"all"}, 23, 30, 0, "group"},
		{[]string{"--rules", rules, "all"}, 23, 30, 0, "group"},
		{[]string{"--rules", rules, "bucket", "nobody"}, 10, 10, 0, "nowhere"},
		{[]string{"--rules", rules, "--test", "bucket", "ada"}, 10, 10, 0, "nowhere"},
	} {
		status, out, stderr := invoke(t, append([]string{"keys", "show", "--store", url, "-o", "json"}, test.args...)...)

		var got shownKey
		if err := json.Unmarshal([]byte(out), &got); err != nil || status != 0 {
			t.Errorf("%q: status %d, %v: %s", test.args, status, err, stderr)

			continue
		}

		if got.Tokens != test.tokens || got.Capacity != test.capacity || got.Leased != test.leased || got.Redis.Kept != test.kept {
			t.Errorf("%q: %s", test.args, out)
		}

		if got.Redis.Kept != "nowhere" && (got.Version != 77 || got.LastRefillTS == "" || got.Redis.LivesMS <= 0) {
			t.Errorf("%q: %s", test.args, out)
		}
	}

	_, table, _ := invoke(t, "keys", "show", "--store", url, "bucket", "bea")
	for _, part := range []string{"tokens       6 of 10", "leased       4, to 1 holders", "0000000000000abc  4"} {
		if !strings.Contains(table, part) {
			t.Errorf("the table has no %q:\n%s", part, table)
		}
	}

	_, text, _ := invoke(t, "keys", "show", "--store", url, "-o", "yaml", "bucket", "ada")

	var got struct{ Tokens int64 }
	if err := yaml.Unmarshal([]byte(text), &got); err != nil || got.Tokens != 7 || strings.HasPrefix(text, "{") {
		t.Errorf("yaml: %v\n%s", err, text)
	}

	if _, hidden, _ := invoke(t, "keys", "show", "--store", url, "--rules", rules, "hidden", "hunter2"); strings.Contains(hidden, "hunter2") {
		t.Errorf("a secret key is shown:\n%s", hidden)
	}
}

// What is asked for wrongly is said so, with status 2; what fails, with 1.
func TestKeysShowRefuses(t *testing.T) {
	rules := inFile(t, "rules.yaml", shownRules)
	server := redistest.NewServer(t)
	url := "redis://" + server.Address
	server.Kill()

	for _, test := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"--store", url}, 2, "needs the RULE"},
		{[]string{"--store", url, "--server", "http://127.0.0.1:1", "bucket", "ada"}, 2, "leave one out"},
		{[]string{"--server", "http://127.0.0.1:1", "--rules", rules, "bucket", "ada"}, 2, "--rules needs --store redis://HOST:PORT"},
		{[]string{"--server", "http://127.0.0.1:1", "--store-prefix", "x", "bucket", "ada"}, 2, "--store-prefix needs --store"},
		{[]string{"--server", "http://127.0.0.1:1", "a", "b", "c"}, 2, "needs the KEY"},
		{[]string{"--store", "memory", "bucket", "ada"}, 2, "needs --store redis://HOST:PORT"},
		{[]string{"--store", url, "pair", "a", "b"}, 2, "--rules"},
		{[]string{"--store", url, "--rules", rules, "pair", "a"}, 2, "2 parts"},
		{[]string{"--store", url, "--rules", rules, "pair", "a", "GET /v1/x"}, 2, "no address"},
		{[]string{"--store", url, "--rules", rules, "none", "a"}, 2, "no rule"},
		{[]string{"--store", url, "--rules", rules, "bucket", ""}, 2, "empty part"},
		{[]string{"--store", url, "-o", "xml", "bucket", "a"}, 2, "none of table, json and yaml"},
		{[]string{"--store", url, "bucket", "a"}, 1, "(--store names it; leaseway doctor with the same --store flags says what to do)"},
	} {
		status, _, stderr := invoke(t, append([]string{"keys", "show"}, test.args...)...)
		if status != test.status || !strings.Contains(stderr, test.says) {
			t.Errorf("%q: status %d, want %d; %s", test.args, status, test.status, stderr)
		}
	}
}
