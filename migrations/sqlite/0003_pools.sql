-- Pools of nodes, and users with a slot of their own (docs/PROTOCOL.md, section 2).
-- Applied once, inside one transaction; `schema_version` is written by the program.

-- SQLite cannot change a check: the table is made anew.
-- pinned: of a slot that users fall into by hash, those with one of their own, `4096:ada 4097:bob`; null: none.
-- pool: of a user's own slot, the pool that the user is assigned to; null of all others.
CREATE TABLE slots_with_pinned (
    slot    INTEGER PRIMARY KEY CHECK (slot BETWEEN 0 AND 5119),
    owner   TEXT NOT NULL REFERENCES nodes (id),
    tenure  INTEGER NOT NULL,
    gained  INTEGER NOT NULL,
    l2space TEXT,
    pinned  TEXT,
    pool    TEXT
) STRICT;
INSERT INTO slots_with_pinned (slot, owner, tenure, gained, l2space) SELECT slot, owner, tenure, gained, l2space FROM slots;
DROP TABLE slots;
ALTER TABLE slots_with_pinned RENAME TO slots;
ALTER TABLE nodes ADD COLUMN pool TEXT NOT NULL DEFAULT 'shared';
