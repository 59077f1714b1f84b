// Package sqlite keeps rules in one file, with nothing to install. What it writes is on the disk when Write returns, and a crash
// at any time leaves the last version whole: SQLite's write-ahead log sees to it. Several processes of one machine may open the
// file; one writes at a time and the others wait.
//
// Neighbours: internal/rulestore, whose contract it fulfils, and its relational, which has the statements.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/internal/rulestore/relational"
)

//go:embed migrations
var migrations embed.FS

// Config says where the file is, and how the store behaves.
type Config struct {
	// Path is the file; it and its directory are made for this user alone when they are not there.
	Path string
	// ReadOnly refuses every change, and needs a file that is there and up to date.
	ReadOnly bool
	// Poll is how often Watch looks for what other processes wrote; 0 is 250 ms.
	Poll time.Duration
	// Wait is how long a writer waits for others at most; 0 is 10 s.
	Wait time.Duration
	// Now is the clock of records; nil for that of the system.
	Now func() time.Time
}

// Store is a rulestore.Store in a file.
type Store struct {
	*relational.Store

	db *sql.DB
}

const (
	usualPoll = 250 * time.Millisecond
	usualWait = 10 * time.Second

	connections = 8

	part = 2000 // overrides, which hold up other writers for some milliseconds
)

// Open opens the file and brings its tables up to date. The error is an *rulestore.Error.
func Open(ctx context.Context, config Config) (*Store, error) {
	store, err := open(ctx, config)
	if err != nil && rulestore.CodeOf(err) == 0 {
		err = &rulestore.Error{
			Code: rulestore.Unavailable, Place: config.Path, Message: "the rule store cannot be opened",
			Fix: "name a file in a directory that this user can write to, or restore it from a backup", Err: err,
		}
	}
	return store, err
}

func open(ctx context.Context, config Config) (*Store, error) {
	if err := prepare(config); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", source(config))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	steps, err := fs.Sub(migrations, "migrations")
	if err == nil {
		err = relational.Migrate(ctx, db, goose.DialectSQLite3, steps)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	dialect := relational.Dialect{
		BeginRead: "BEGIN", BeginWrite: "BEGIN IMMEDIATE", Bytes: "BLOB", Clustered: " WITHOUT ROWID", Rows: 10, CodeOf: codeOf,
		Part:      part,
		NowMicros: "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
	}
	behaviour := relational.Config{Poll: config.Poll, Wait: config.Wait, Now: config.Now}
	if behaviour.Poll == 0 {
		behaviour.Poll = usualPoll
	}
	if behaviour.Wait == 0 {
		behaviour.Wait = usualWait
	}
	return &Store{Store: relational.New(db, dialect, behaviour), db: db}, nil
}

// Close closes the file. Nothing else may be called then.
func (s *Store) Close() error { return s.db.Close() }

// prepare makes the file, so that it, and what SQLite makes beside it, is for this user alone.
func prepare(config Config) error {
	const private, privateDir = 0o600, 0o700
	if config.ReadOnly {
		_, err := os.Stat(config.Path)
		return err
	}
	if err := os.MkdirAll(filepath.Dir(config.Path), privateDir); err != nil {
		return err
	}
	file, err := os.OpenFile(config.Path, os.O_RDWR|os.O_CREATE, private)
	if err != nil {
		return err
	}
	return file.Close()
}

// source names the file to the driver, with what every connection needs.
func source(config Config) string {
	pragmas := []string{
		"busy_timeout(100)", // the rest is waited for by relational, which looks at the context meanwhile
		"journal_mode(WAL)",
		"synchronous(FULL)",            // on the disk at each commit
		"journal_size_limit(67108864)", // what a large import leaves behind
	}
	if config.ReadOnly {
		pragmas = []string{"busy_timeout(100)", "query_only(1)"}
	}
	values := url.Values{"_pragma": pragmas, "mode": {"rw"}}
	return (&url.URL{Scheme: "file", Opaque: escape(config.Path), RawQuery: values.Encode()}).String()
}

// escape keeps what a path may contain from being read as a part of the source.
func escape(path string) string {
	return strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(filepath.ToSlash(path))
}

// The primary result codes of SQLite (sqlite.org/rescode.html).
const (
	primary  = 0xff
	busy     = 5
	locked   = 6
	readOnly = 8
	full     = 13
)

func codeOf(err error) rulestore.Code {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return 0
	}
	switch e.Code() & primary {
	case busy, locked:
		return rulestore.Busy
	case readOnly:
		return rulestore.ReadOnly
	case full:
		return rulestore.Full
	}
	return 0
}
