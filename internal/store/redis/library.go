package redis

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
)

//go:embed lua/*.lua
var sources embed.FS

// A library is the Lua that runs in Redis, as a library of functions: unlike a
// script's, its hundred functions are made once, and not again by every call. A
// master hands it on to its replicas. One that was emptied by FUNCTION FLUSH,
// or is new, does not know it, and is told.
type library struct {
	name string
	text string // as FUNCTION LOAD takes it
	op   string // the function of one op
	ops  string // the function of several ops, whatever their slots
	move string // the function of one op in a slot that is on its way to another node
	beat string // the function that notes who lives

	number string // the function that notes how rules are numbered

	loading sync.Mutex // one load for all who find it missing
	loads   atomic.Int64
}

// newLibrary puts the files of lua together, in the order of their names. The
// names of its functions have a digest of it, so that coordinators of several
// versions can share a Redis, each with the functions that it knows.
func newLibrary() (*library, error) {
	body, err := libraryBody()
	if err != nil {
		return nil, err
	}

	return libraryOf(body), nil
}

// libraryOf makes a library of Lua that has the functions op, ops, move, beat and number.
func libraryOf(body string) *library {
	sum := sha256.Sum256([]byte(body))
	digest := hex.EncodeToString(sum[:6])
	l := &library{
		name: libraryPrefix + digest, op: "leaseway_op_" + digest, ops: "leaseway_ops_" + digest,
		move: "leaseway_move_" + digest, beat: "leaseway_beat_" + digest,
		number: "leaseway_number_" + digest,
	}
	l.text = "#!lua name=" + l.name + "\n" + body +
		"redis.register_function('" + l.op + "', op)\n" +
		"redis.register_function{function_name='" + l.ops + "', callback=ops, flags={'allow-cross-slot-keys'}}\n" +
		"redis.register_function('" + l.move + "', move)\n" +
		"redis.register_function('" + l.beat + "', beat)\n" +
		"redis.register_function('" + l.number + "', number)\n"

	return l
}

func libraryBody() (string, error) {
	files, err := fs.Glob(sources, "lua/*.lua")
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("redis store: no files in lua: %w", err)
	}

	var text strings.Builder

	for _, file := range files {
		part, err := sources.ReadFile(file)
		if err != nil {
			return "", err
		}

		text.Write(part)
	}

	return text.String(), nil
}

// load hands the library to every master, unless somebody has done so since the
// caller read loads as seen. A node that does not take it shows in what is
// asked of it next; replicas refuse it, and get it from their masters.
func (l *library) load(ctx context.Context, client rueidis.Client, seen int64) {
	l.loading.Lock()
	defer l.loading.Unlock()

	if l.loads.Load() != seen {
		return
	}

	var wait sync.WaitGroup

	for _, node := range client.Nodes() {
		wait.Go(func() {
			_ = node.Do(ctx, node.B().FunctionLoad().Replace().FunctionCode(l.text).Build()).Error()
		})
	}

	wait.Wait()
	l.loads.Add(1)
}

// isUnknown reports whether a node refused a call since it does not know the function.
func isUnknown(err *rueidis.RedisError) bool {
	return strings.Contains(err.Error(), "Function not found")
}
