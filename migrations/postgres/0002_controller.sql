-- Leaving nodes, changes that somebody attends to, and the failure controller's post (docs/PROTOCOL.md, section 2).
-- Applied once, inside one transaction, under the schema lock; `schema_version` is written by the program.

-- In the order in which the program locks these tables, so that a running cluster and this migration cannot deadlock.
-- attended_until: null when nobody does.
ALTER TABLE ring_changes ADD COLUMN attended_until timestamptz;
ALTER TABLE nodes ADD COLUMN leaving boolean NOT NULL DEFAULT false;

-- At most one row: the present or the last holder. It is never deleted, or a term could come twice.
CREATE TABLE controller (
    one    boolean PRIMARY KEY CHECK (one),
    holder text NOT NULL,
    term   bigint NOT NULL,
    until  timestamptz NOT NULL,
    note   text NOT NULL
);
