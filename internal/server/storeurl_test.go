package server

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestStoreURLs(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("s3cret%\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		store, file string
		addresses   []string
		user, pass  string
		tls         bool
		master      string
		problem     string // a part of it; "" for none
	}{
		{store: "redis://127.0.0.1:7000", addresses: []string{"127.0.0.1:7000"}},
		{store: "redis://a,b:7001,[::1]:7002/", addresses: []string{"a:6379", "b:7001", "[::1]:7002"}},
		{store: "rediss://app:p%40ss:w@r1:6380,r2:6380", addresses: []string{"r1:6380", "r2:6380"}, user: "app", pass: "p@ss:w", tls: true},
		{store: "redis://:only@r", addresses: []string{"r:6379"}, pass: "only"},
		{store: "redis://app@r", file: password, addresses: []string{"r:6379"}, user: "app", pass: "s3cret%"},
		{store: "redis://app:x@r", file: password, problem: "leave it out of the URL"},
		{store: "redis://app:50%@r", problem: "write it as %25"},
		{store: "postgres://r", problem: "redis://, rediss://"},
		{store: "127.0.0.1:6379", problem: "redis://, rediss://"},
		{store: "redis+sentinel://s1,s2:5000/main", addresses: []string{"s1:26379", "s2:5000"}, master: "main"},
		{store: "rediss+sentinel://u:p@s1/m", addresses: []string{"s1:26379"}, user: "u", pass: "p", tls: true, master: "m"},
		{store: "redis+sentinel://s1,s2", problem: "/MASTER"},
		{store: "redis+sentinel://s1/a/b", problem: "/MASTER"},
		{store: "redis+cluster://s1", problem: "redis://, rediss://"},
		{store: "redis://r/2", problem: "there are no numbered databases"},
		{store: "redis://", problem: "no HOST:PORT"},
		{store: "redis://a,,b", problem: "no HOST:PORT"},
		{store: "redis://a:b:c", problem: "no HOST:PORT"},
		{store: "redis://a:99999", problem: "no HOST:PORT"},
		{store: "memory", file: password, problem: "--store-password-file needs --store"},
	} {
		c := &Config{Store: test.store, StorePasswordFile: test.file}
		got, err := c.RedisConfig(nil)

		if test.problem != "" {
			if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%s: %v, want one that says %q", test.store, err, test.problem)
			}

			continue
		}

		if err != nil {
			t.Errorf("%s: %v", test.store, err)

			continue
		}

		if !slices.Equal(got.Addresses, test.addresses) || got.Username != test.user || got.Password != test.pass || (got.TLS != nil) != test.tls {
			t.Errorf("%s: %q, user %q, password %q, TLS %v", test.store, got.Addresses, got.Username, got.Password, got.TLS != nil)
		}

		if (got.Sentinel != nil) != (test.master != "") || got.Sentinel != nil && got.Sentinel.Master != test.master {
			t.Errorf("%s: sentinel %+v, want %q", test.store, got.Sentinel, test.master)
		}
	}
}

// How connections are, and whose clock counts, is for Redis alone, and said as a flag.
func TestStoreLink(t *testing.T) {
	c := &Config{Store: "redis://r", StoreConnections: 4, StoreDialTimeout: time.Minute, StoreSilence: 100 * time.Millisecond, StoreOwnClock: true}

	got, err := c.RedisConfig(nil)
	if err != nil || got.Connections != 4 || got.DialTimeout != time.Minute || got.DeadAfter != 100*time.Millisecond || got.Clock == nil {
		t.Errorf("%+v (%v)", got, err)
	}

	if d := time.Since(time.UnixMicro(got.Clock())).Abs(); d > time.Minute {
		t.Errorf("the clock is %v off", d)
	}

	for says, c := range map[string]*Config{
		"--store-connections is 3":                               {Store: "redis://r", StoreConnections: 3},
		"--store-connections is -":                               {Store: "redis://r", StoreConnections: -2},
		"--store-connections is 5":                               {Store: "redis://r", StoreConnections: 512},
		"--store-dial-timeout -1ns is not between 10ms and 1m0s": {Store: "redis://r", StoreDialTimeout: -1},
		"--store-dial-timeout 1ms is not":                        {Store: "redis://r", StoreDialTimeout: time.Millisecond},
		"--store-dial-timeout 1h0m0s is not":                     {Store: "redis://r", StoreDialTimeout: time.Hour},
		"--store-silence 1ms is not between 100ms and 1m0s":      {Store: "redis://r", StoreSilence: time.Millisecond},
		"--store-silence 1h0m0s is not":                          {Store: "redis://r", StoreSilence: time.Hour},
		"--store-own-clock needs":                                {StoreOwnClock: true},
	} {
		if _, err := c.RedisConfig(nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", c, err, says)
		}
	}
}

// What is wrong with a store's URL is said without the password in it.
func TestStoreProblemsKeepThePassword(t *testing.T) {
	for _, store := range []string{
		"rdis://u:hunter2@r", "redis://u:hunter2@r/2", "redis://u:hunter2@:x", "redis://u:hunter2%@r", "hunter2",
		"redis://u:hunter2", "redis://:hunter2%40r:6379",
	} {
		if _, err := (&Config{Store: store}).RedisConfig(nil); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", store, err)
		}
	}
}
