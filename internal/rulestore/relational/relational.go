// Package relational keeps rules in tables, by statements that SQLite and Postgres both understand. It is the whole of both
// stores but for what differs between them, which is a Dialect: how a transaction begins, what an error means, and who hears of
// a change.
//
//	Write:  take the turn ── begin ── lock the row of head ── check conditions ── write ── head, record, notice ── commit
//	Import: begin ── lock the overrides ── reserve a version ── write ── lock the row of head ── head, record, notice ── commit
//	Load:   begin, one snapshot ── head, rules, settings ── assemble
//
// The row of head is the lock that all writers take, so records follow each other in the order of their commits, and so do the
// versions of rules among themselves, and those of overrides. A database with one writer takes an import in parts: see arrival.
//
// Neighbours: internal/rulestore, whose contract this fulfils, and its sqlite and postgres.
package relational

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// Dialect is what differs between databases.
type Dialect struct {
	// BeginRead and BeginWrite begin a transaction; a read sees one snapshot of everything.
	BeginRead, BeginWrite string
	// LockHead is what stands behind the statement that reads the row of head, so that only one writer goes on.
	LockHead string
	// LockOverrides is a statement that takes the lock of those who write overrides, until the transaction ends. With it many
	// are written before the row of head is locked, so that others write meanwhile; empty for a database with one writer.
	LockOverrides string
	// Part is how many overrides are written at a time, of many, in a database with one writer, which then has the tables of an
	// arrival; 0 for others.
	Part int
	// Bytes is the type of a key.
	Bytes string
	// Clustered is what stands behind the definition of a table to have its rows in the order of its primary key; from such a
	// table they come into another like it in half the time. Empty where Copy is used.
	Clustered string
	// Rows is how many rows one statement inserts best, of many: at most 1000.
	Rows int
	// Copy puts many rows into a table faster than statements can; nil for a database without a way of its own. The table then
	// has no primary key, and seq numbers its rows: see Latest.
	Copy func(ctx context.Context, conn *sql.Conn, rows Rows) error
	// Latest selects the last row of each key of the staged ones, where Copy is used.
	Latest string
	// NowMicros is an expression for the time, in microseconds since the Unix epoch, by the clock of the database.
	NowMicros string
	// Notify is a statement that announces a change when the transaction commits; empty for none.
	Notify string
	// Listen calls wake for every notice, until ctx ends; nil for a database without any. It need not be reliable.
	Listen func(ctx context.Context, wake func())
	// CodeOf says what an error of the driver means; 0 for whatever is not known.
	CodeOf func(err error) rulestore.Code
}

// Rows are values on their way into the columns of a table.
type Rows struct {
	Table   string
	Columns []string
	Values  [][]any
}

// Config is how a store behaves.
type Config struct {
	// Poll is how often Watch asks, should no notice come.
	Poll time.Duration
	// Wait is how long a writer waits for its turn at most.
	Wait time.Duration
	// Now is the clock of records; nil for that of the system.
	Now func() time.Time
}

// Store is a rulestore.Store in a database.
type Store struct {
	db      *sql.DB
	dialect Dialect
	config  Config
	memory  rulestore.Memory

	// Held by the writer of this process that is at work, and by the one of overrides: waiting here costs no connection.
	turn, overridesTurn chan struct{}
	arrived             chan struct{} // has one who watches settle an import

	mu       sync.Mutex
	watchers map[chan struct{}]struct{}
}

// New makes a store of a database that has its tables. Closing the database is the caller's.
func New(db *sql.DB, dialect Dialect, config Config) *Store {
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Store{
		db: db, dialect: dialect, config: config, turn: make(chan struct{}, 1), overridesTurn: make(chan struct{}, 1),
		arrived: make(chan struct{}, 1), watchers: map[chan struct{}]struct{}{},
	}
}

var _ rulestore.Store = (*Store)(nil)

// settleTimeout bounds what must be done although the caller's context has ended.
const settleTimeout = 5 * time.Second

// session is one connection, in a transaction or before one.
type session struct {
	conn  *sql.Conn
	store *Store
	// spoiled says that the connection is not to be used again.
	spoiled bool
}

// open takes a connection.
func (s *Store) open(ctx context.Context) (*session, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return &session{conn: conn, store: s}, nil
}

// close gives the connection back, or ends it.
func (c *session) close() {
	if c.spoiled {
		_ = c.conn.Raw(func(any) error { return driver.ErrBadConn }) // this is how database/sql is told
	}
	_ = c.conn.Close()
}

func (c *session) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	result, err := c.conn.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, c.store.explain(ctx, err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return 0, c.store.explain(ctx, err)
	}
	return n, nil
}

// each calls scan for every row.
func (c *session) each(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error {
	rows, err := c.conn.QueryContext(ctx, statement, args...)
	if err != nil {
		return c.store.explain(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return c.store.explain(ctx, err)
		}
	}
	return c.store.explain(ctx, rows.Err())
}

// within runs work between begin and commit, and takes everything back when work fails.
func (c *session) within(ctx context.Context, begin, work func() error) error {
	if err := begin(); err != nil {
		c.spoiled = true // it may have begun all the same
		return asBusy(err)
	}
	done := false
	defer func() { // also when work panics
		if !done {
			c.rollback(ctx)
		}
	}()
	if err := work(); err != nil {
		return err
	}
	if _, err := c.exec(ctx, "COMMIT"); err != nil {
		return err
	}
	done = true
	return nil
}

// begin asks again while another process has its turn, for databases that do not wait themselves.
func (c *session) begin(ctx context.Context, statement string) error {
	const pause = 5 * time.Millisecond
	for {
		_, err := c.exec(ctx, statement)
		if err == nil || rulestore.CodeOf(err) != rulestore.Busy || ctx.Err() != nil {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// rollback ends a transaction, and the connection when that cannot be.
func (c *session) rollback(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if _, err := c.exec(ctx, "ROLLBACK"); err != nil {
		c.spoiled = true
	}
}

// read runs work in one snapshot.
func (s *Store) read(ctx context.Context, work func(*session) error) error {
	c, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	return c.within(ctx, func() error { return c.begin(ctx, s.dialect.BeginRead) }, func() error { return work(c) })
}

// explain makes an *Error of what the driver says, unless it is one, or the context ended.
func (s *Store) explain(ctx context.Context, err error) error {
	if err == nil || rulestore.CodeOf(err) != 0 {
		return err
	}
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("the rule store was not waited for: %w", ended)
	}
	switch s.dialect.CodeOf(err) {
	case rulestore.ReadOnly:
		return &rulestore.Error{
			Code: rulestore.ReadOnly, Message: "the rule store takes no changes",
			Fix: "make the database writable, or write to its primary", Err: err,
		}
	case rulestore.Busy:
		return busy(err)
	case rulestore.Full:
		return &rulestore.Error{
			Code: rulestore.Full, Message: "the rule store has no room for changes",
			Fix: "make room on the disk of the database; the rules in use go on meanwhile", Err: OneLine(err),
		}
	default:
		return &rulestore.Error{
			Code: rulestore.Unavailable, Message: "the rule store does not answer",
			Fix: "see to the database; the rules in use go on meanwhile", Err: OneLine(err),
		}
	}
}

func busy(err error) error {
	return &rulestore.Error{
		Code: rulestore.Busy, Message: "other writers of the rule store did not let this one have its turn", Fix: "try again", Err: err,
	}
}

// head reads how far the versions are; suffix is Dialect.LockHead or empty.
func (c *session) head(ctx context.Context, suffix string) (h headRow, err error) {
	found := false
	err = c.each(ctx, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(&h.last, &h.records, &h.rules, &h.overrides)
	}, "SELECT last, records, rules, overrides FROM head WHERE one = 1"+suffix)
	if err == nil && !found {
		err = &rulestore.Error{
			Code: rulestore.Unavailable, Place: "head", Message: "the row that counts versions is gone",
			Fix: "restore the database from a backup",
		}
	}
	return h, err
}

// headRow is the row of head: the last version and record, and the last versions that changed rules and overrides.
type headRow struct{ last, records, rules, overrides uint64 }

func (h headRow) head() rulestore.Head { return rulestore.Head{Rules: h.rules, Overrides: h.overrides} }

// take waits for the other writers of this process.
func take(ctx context.Context, turn chan struct{}) (release func(), err error) {
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, busy(ctx.Err())
	}
}

// asBusy is err, or Busy where it came of waiting too long.
func asBusy(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return busy(err)
	}
	return err
}
