// Package postgres keeps rules in a Postgres database, which any number of coordinators share. A change is announced with
// NOTIFY, and heard of at the next poll where the notice was lost, or where a pooler between does not pass it on.
//
// Its tables are in the first schema of the connection's search_path: name one of Leaseway's own, or a database.
//
// Neighbours: internal/rulestore, whose contract it fulfils, and its relational, which has the statements.
package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jackc/pgxlisten"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/internal/rulestore/relational"
)

//go:embed migrations
var migrations embed.FS

// Config says where the database is, and how the store behaves.
type Config struct {
	// URL is as pgx reads it: postgres://user:password@host/database, or the words of libpq.
	URL string
	// ReadOnly refuses every change, and needs tables that are up to date.
	ReadOnly bool
	// Poll is how often Watch asks, should a notice be lost; 0 is 2 s.
	Poll time.Duration
	// Wait is how long a writer waits for others at most; 0 is 10 s.
	Wait time.Duration
	// Now is the clock of records; nil for that of the system.
	Now func() time.Time
}

// Store is a rulestore.Store in Postgres.
type Store struct {
	*relational.Store

	db *sql.DB
}

const (
	usualPoll = 2 * time.Second
	usualWait = 10 * time.Second

	connectTimeout = 5 * time.Second
	connections    = 8
	idle           = 5 * time.Minute

	channel = "leaseway_rules"

	// overridesLock is the first half of an advisory lock: "leas" in ASCII, to differ from what others of the database use.
	overridesLock = "1818583411"
)

// Open connects, and brings the tables up to date. The error is an *rulestore.Error; it does not show the password.
func Open(ctx context.Context, config Config) (*Store, error) {
	store, err := open(ctx, config)
	if err != nil && rulestore.CodeOf(err) == 0 {
		err = &rulestore.Error{
			Code: rulestore.Unavailable, Message: "the rule store in Postgres cannot be opened",
			Fix: "check the address and the rights of the user: it makes tables in the first schema of its search_path",
			Err: relational.OneLine(err),
		}
	}
	return store, err
}

func open(ctx context.Context, config Config) (*Store, error) {
	target, err := pgx.ParseConfig(config.URL)
	if err != nil {
		return nil, err
	}
	if target.ConnectTimeout == 0 {
		target.ConnectTimeout = connectTimeout
	}
	if target.RuntimeParams["application_name"] == "" {
		target.RuntimeParams["application_name"] = "leaseway"
	}
	if config.ReadOnly {
		target.RuntimeParams["default_transaction_read_only"] = "on"
	}
	// Connections of its own, and not those of a pgxpool: one that had a temporary table must end with it.
	db := stdlib.OpenDB(*target)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	db.SetConnMaxIdleTime(idle)
	if err := migrate(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	dialect := relational.Dialect{
		BeginRead:  "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ",
		BeginWrite: "BEGIN ISOLATION LEVEL READ COMMITTED", // what was waited for is seen
		LockHead:   " FOR UPDATE",
		// One lock for each such table, as several Leaseways may share a database.
		LockOverrides: "SELECT pg_advisory_xact_lock(" + overridesLock + ", CAST(CAST('overrides' AS regclass) AS oid)::int)",
		Bytes:         "BYTEA",
		Rows:          1000,
		Copy:          copyRows,
		Latest:        "(SELECT DISTINCT ON (rule, stored_key) * FROM staged ORDER BY rule, stored_key, seq DESC) latest",
		NowMicros:     "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)",
		Notify:        "SELECT pg_notify('" + channel + "', '')",
		Listen:        listener(target),
		CodeOf:        codeOf,
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

// Close ends the connections. Nothing else may be called then.
func (s *Store) Close() error { return s.db.Close() }

// copyRows sends rows by the COPY protocol.
func copyRows(ctx context.Context, conn *sql.Conn, rows relational.Rows) error {
	return conn.Raw(func(driver any) error {
		own, ok := driver.(*stdlib.Conn)
		if !ok {
			return errors.New("the connection is not one of pgx")
		}
		_, err := own.Conn().CopyFrom(ctx, pgx.Identifier{rows.Table}, rows.Columns, pgx.CopyFromRows(rows.Values))
		return err
	})
}

// migrate takes a lock of the database, since coordinators start together.
func migrate(ctx context.Context, db *sql.DB) error {
	steps, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60)) // asked for each second, for a minute
	if err != nil {
		return err
	}
	return relational.Migrate(ctx, db, goose.DialectPostgres, steps, goose.WithSessionLocker(locker))
}

// listener wakes a watcher for each notice, and when it has connected again, since it may have missed some.
func listener(target *pgx.ConnConfig) func(ctx context.Context, wake func()) {
	return func(ctx context.Context, wake func()) {
		l := pgxlisten.Listener{
			Connect:        func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, target.Copy()) },
			ReconnectDelay: time.Second,
		}
		l.Handle(channel, notice(wake))
		_ = l.Listen(ctx) // it ends with the context; whatever fails before is tried again, and polling goes on
	}
}

// notice is a handler that only wakes.
type notice func()

// HandleNotification implements pgxlisten.Handler.
func (n notice) HandleNotification(context.Context, *pgconn.Notification, *pgx.Conn) error {
	n()
	return nil
}

// HandleBacklog implements pgxlisten.BacklogHandler.
func (n notice) HandleBacklog(context.Context, string, *pgx.Conn) error {
	n()
	return nil
}

// codeOf reads the SQLSTATE (postgresql.org/docs/current/errcodes-appendix.html).
func codeOf(err error) rulestore.Code {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return 0
	}
	switch e.Code {
	case "25006": // read_only_sql_transaction
		return rulestore.ReadOnly
	case "53100": // disk_full
		return rulestore.Full
	case "40001", "40P01", "55P03": // serialization_failure, deadlock_detected, lock_not_available
		return rulestore.Busy
	}
	return 0
}
