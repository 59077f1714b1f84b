-- +goose Up
-- Many overrides arrive in parts, are in force with the version of their import, and are moved to the others in parts, too.
-- One import at a time has a version; of the others, at_us is their last sign of life.
CREATE TABLE imports (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at_us   INTEGER NOT NULL,
    version INTEGER NOT NULL
) STRICT;

CREATE TABLE arriving (
    import     INTEGER NOT NULL,
    rule       TEXT    NOT NULL,
    stored_key BLOB    NOT NULL,
    hint       TEXT    NOT NULL,
    tokens     INTEGER NOT NULL,
    burst      INTEGER NOT NULL,
    lease_us   INTEGER NOT NULL,
    expires_us INTEGER NOT NULL,
    note       TEXT    NOT NULL,
    deleted    INTEGER NOT NULL,
    PRIMARY KEY (import, rule, stored_key)
) STRICT, WITHOUT ROWID;
