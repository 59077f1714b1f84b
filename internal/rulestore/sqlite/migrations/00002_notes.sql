-- +goose Up
-- What coordinators tell each other about now.
CREATE TABLE notes (
    name  TEXT    NOT NULL PRIMARY KEY,
    at_us INTEGER NOT NULL,
    body  TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
