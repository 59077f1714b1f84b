-- +goose Up
-- Names and keys are compared by their bytes, whatever the language of the database.
CREATE TABLE head (
    one       BIGINT PRIMARY KEY CHECK (one = 1),
    last      BIGINT NOT NULL,
    records   BIGINT NOT NULL,
    rules     BIGINT NOT NULL,
    overrides BIGINT NOT NULL
);
INSERT INTO head (one, last, records, rules, overrides) VALUES (1, 0, 0, 0, 0);

CREATE TABLE rules (
    id       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    version  BIGINT NOT NULL,
    document TEXT   NOT NULL
);

CREATE TABLE settings (
    name     TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    version  BIGINT NOT NULL,
    document TEXT   NOT NULL
);

CREATE TABLE overrides (
    rule       TEXT COLLATE "C" NOT NULL,
    stored_key BYTEA  NOT NULL,
    hint       TEXT   NOT NULL,
    tokens     BIGINT NOT NULL,
    burst      BIGINT NOT NULL,
    lease_us   BIGINT NOT NULL,
    expires_us BIGINT NOT NULL,
    note       TEXT   NOT NULL,
    version    BIGINT NOT NULL,
    PRIMARY KEY (rule, stored_key)
);

CREATE TABLE versions (
    version BIGINT NOT NULL,
    place   TEXT COLLATE "C" NOT NULL,
    before  TEXT,
    after   TEXT,
    PRIMARY KEY (version, place)
);
CREATE INDEX versions_by_place ON versions (place, version);

CREATE TABLE audit (
    seq       BIGINT NOT NULL PRIMARY KEY,
    version   BIGINT NOT NULL,
    at_us     BIGINT NOT NULL,
    author    TEXT   NOT NULL,
    reason    TEXT   NOT NULL,
    action    TEXT   NOT NULL,
    target    TEXT   NOT NULL,
    overrides BIGINT NOT NULL
);
CREATE INDEX audit_by_version ON audit (version);
