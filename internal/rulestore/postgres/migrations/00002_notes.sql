-- +goose Up
-- What coordinators tell each other about now. Nobody misses it after a crash, so it is not logged.
CREATE UNLOGGED TABLE notes (
    name  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    at_us BIGINT NOT NULL,
    body  TEXT   NOT NULL
);
