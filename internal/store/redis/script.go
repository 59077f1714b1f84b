package redis

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
)

//go:embed lua
var sources embed.FS

// A script is a Lua program that Redis runs atomically, by the name that it
// gives it. A node that was restarted, or told to forget, does not know it.
type script struct {
	text string
	sha  string

	loading sync.Mutex // one load for all who find it missing
	loads   atomic.Int64
}

// opScript returns the script of one op: the files of lua/op, in the order of their names.
func opScript() (*script, error) {
	files, err := fs.Glob(sources, "lua/op/*.lua")
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("redis store: no files in lua/op: %w", err)
	}

	var text strings.Builder

	for _, file := range files {
		part, err := sources.ReadFile(file)
		if err != nil {
			return nil, err
		}

		text.Write(part)
	}

	return newScript(text.String()), nil
}

// beatScript returns the script that notes who lives.
func beatScript() (*script, error) {
	text, err := sources.ReadFile("lua/beat.lua")

	return newScript(string(text)), err
}

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // a name, not a secret

	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}

// load sends the script to every node, unless somebody has done so since the
// caller read loads as seen. A node that does not take it shows in what is asked of it next.
func (s *script) load(ctx context.Context, client rueidis.Client, seen int64) {
	s.loading.Lock()
	defer s.loading.Unlock()

	if s.loads.Load() != seen {
		return
	}

	var wait sync.WaitGroup

	for _, node := range client.Nodes() {
		wait.Go(func() {
			_ = node.Do(ctx, node.B().ScriptLoad().Script(s.text).Build()).Error()
		})
	}

	wait.Wait()
	s.loads.Add(1)
}
