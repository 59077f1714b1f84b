-- What the first release made, with a rule in it. It never changes.
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

CREATE TABLE leaseway_schema (id INTEGER PRIMARY KEY AUTOINCREMENT, version_id INTEGER NOT NULL, is_applied INTEGER NOT NULL, tstamp TIMESTAMP DEFAULT (datetime('now')));
INSERT INTO leaseway_schema (version_id, is_applied) VALUES (0, 1), (1, 1);
UPDATE head SET last = 1, records = 1, rules = 1;
INSERT INTO rules (id, version, document) VALUES ('a', 1, '{"id":"a","version":1,"keyBy":["user"],"limit":100,"window":"1m"}');
INSERT INTO versions (version, place, before, after) VALUES (1, 'rules a', NULL, '{"id":"a","version":1,"keyBy":["user"],"limit":100,"window":"1m"}');
INSERT INTO audit (seq, version, at_us, author, reason, action, target, overrides) VALUES (1, 1, 1767225600000000, 'ada', '', 'rules.put', 'a', 0);
