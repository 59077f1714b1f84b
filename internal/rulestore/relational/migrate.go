package relational

import (
	"context"
	"database/sql"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// schemaTable is where the steps that were done are noted.
const schemaTable = "leaseway_schema"

// Migrate brings the tables up to date, each step whole or not at all. It refuses those of a newer Leaseway, and does not write
// to those that are up to date. Errors are as the driver gives them, or an *rulestore.Error.
//
//nolint:revive // the options are goose's, and few have any
func Migrate(ctx context.Context, db *sql.DB, dialect goose.Dialect, steps fs.FS, options ...goose.ProviderOption) error {
	provider, err := goose.NewProvider(dialect, db, steps, append(options, goose.WithTableName(schemaTable))...)
	if err != nil {
		return err
	}
	if err := db.PingContext(ctx); err != nil {
		return err
	}
	// Processes that start together get in each other's way when the first tables are made: whoever is second looks again.
	const attempts, pause = 10, 50 * time.Millisecond
	for range attempts {
		if err = migrate(ctx, provider); err == nil || rulestore.CodeOf(err) != 0 {
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
	return err
}

func migrate(ctx context.Context, provider *goose.Provider) error {
	current, target, err := provider.GetVersions(ctx)
	switch {
	case err != nil || current == target:
		return err
	case current > target:
		return &rulestore.Error{
			Code: rulestore.Invalid, Place: schemaTable, Message: "the tables are of a newer version of Leaseway", Fix: "run that version",
		}
	}
	_, err = provider.Up(ctx)
	return err
}
