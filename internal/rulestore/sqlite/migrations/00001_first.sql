-- +goose Up
CREATE TABLE head (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    last      INTEGER NOT NULL,
    records   INTEGER NOT NULL,
    rules     INTEGER NOT NULL,
    overrides INTEGER NOT NULL
) STRICT;
INSERT INTO head (one, last, records, rules, overrides) VALUES (1, 0, 0, 0, 0);

CREATE TABLE rules (
    id       TEXT    NOT NULL PRIMARY KEY,
    version  INTEGER NOT NULL,
    document TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE settings (
    name     TEXT    NOT NULL PRIMARY KEY,
    version  INTEGER NOT NULL,
    document TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE overrides (
    rule       TEXT    NOT NULL,
    stored_key BLOB    NOT NULL,
    hint       TEXT    NOT NULL,
    tokens     INTEGER NOT NULL,
    burst      INTEGER NOT NULL,
    lease_us   INTEGER NOT NULL,
    expires_us INTEGER NOT NULL,
    note       TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    PRIMARY KEY (rule, stored_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE versions (
    version INTEGER NOT NULL,
    place   TEXT    NOT NULL,
    before  TEXT,
    after   TEXT,
    PRIMARY KEY (version, place)
) STRICT;
CREATE INDEX versions_by_place ON versions (place, version);

CREATE TABLE audit (
    seq       INTEGER NOT NULL PRIMARY KEY,
    version   INTEGER NOT NULL,
    at_us     INTEGER NOT NULL,
    author    TEXT    NOT NULL,
    reason    TEXT    NOT NULL,
    action    TEXT    NOT NULL,
    target    TEXT    NOT NULL,
    overrides INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_by_version ON audit (version);
