-- Leaving nodes, changes that somebody attends to, and the failure controller's post (docs/PROTOCOL.md, section 2).
-- Applied once, inside one transaction; `schema_version` is written by the program.

-- attended_until: milliseconds since 1970; null when nobody does.
ALTER TABLE ring_changes ADD COLUMN attended_until INTEGER;
ALTER TABLE nodes ADD COLUMN leaving INTEGER NOT NULL DEFAULT 0 CHECK (leaving IN (0, 1));

-- At most one row: the present or the last holder. It is never deleted, or a term could come twice.
-- until: milliseconds since 1970.
CREATE TABLE controller (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    holder TEXT NOT NULL,
    term   INTEGER NOT NULL,
    until  INTEGER NOT NULL,
    note   TEXT NOT NULL
) STRICT;
