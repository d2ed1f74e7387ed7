-- Entries, slots with tenure, nodes with lease, ring epochs and ring changes (docs/PROTOCOL.md, section 2).
-- Applied once, inside one transaction; `schema_version` is written by the program.

-- SQLite has no sequences: a row each, read and raised inside the writing transaction.
CREATE TABLE sequences (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;
INSERT INTO sequences (name, value) VALUES ('version', 0), ('tenure', 0), ('l2space', 0);

-- Keys and users compare and sort by their bytes: SQLite's default collation.
CREATE TABLE entries (
    usr           TEXT NOT NULL,
    key           TEXT NOT NULL,
    value         BLOB NOT NULL,
    content_type  TEXT NOT NULL,
    cache_control TEXT,
    version       INTEGER NOT NULL,
    updated_ms    INTEGER NOT NULL,
    PRIMARY KEY (usr, key)
) STRICT;

-- lease_until: milliseconds since 1970.
CREATE TABLE nodes (
    id          TEXT PRIMARY KEY,
    addr        TEXT NOT NULL,
    weight      INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    lease_until INTEGER NOT NULL
) STRICT;

CREATE TABLE slots (
    slot    INTEGER PRIMARY KEY CHECK (slot BETWEEN 0 AND 4095),
    owner   TEXT NOT NULL REFERENCES nodes (id),
    tenure  INTEGER NOT NULL,
    gained  INTEGER NOT NULL,
    l2space TEXT
) STRICT;

CREATE TABLE ring_changes (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    action     TEXT NOT NULL,
    from_epoch INTEGER NOT NULL,
    to_epoch   INTEGER NOT NULL,
    members    TEXT NOT NULL,
    moves      TEXT NOT NULL,
    phase      TEXT NOT NULL CHECK (phase IN ('copy', 'sealed', 'flipped', 'done', 'aborted')),
    seal       TEXT NOT NULL DEFAULT '[]',
    flip       TEXT NOT NULL DEFAULT '[]',
    operator   TEXT NOT NULL,
    reason     TEXT,
    started_ms INTEGER NOT NULL,
    ended_ms   INTEGER
) STRICT;

-- At most one change that is not over (C10: the next may start only after 'done').
CREATE UNIQUE INDEX ring_changes_one_active ON ring_changes ((phase IN ('copy', 'sealed', 'flipped')))
    WHERE phase IN ('copy', 'sealed', 'flipped');

CREATE TABLE ring_epochs (
    epoch      INTEGER PRIMARY KEY,
    members    TEXT NOT NULL,
    change_id  INTEGER REFERENCES ring_changes (id),
    created_ms INTEGER NOT NULL
) STRICT;
