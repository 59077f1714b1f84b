package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// A file that may not grow, as on a disk without room, says so of itself.
func TestAFullFile(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "rules.db")+"?_pragma=max_page_count(2)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "CREATE TABLE filled AS SELECT randomblob(100000) AS bytes")
	if code := codeOf(err); code != rulestore.Full {
		t.Errorf("%v has the code %d, want %d", err, code, rulestore.Full)
	}
}
