-- Pools of nodes, and users with a slot of their own (docs/PROTOCOL.md, section 2).
-- Applied once, inside one transaction, under the schema lock; `schema_version` is written by the program.

-- In the order in which the program locks these tables, so that a running cluster and this migration cannot deadlock.
-- pinned: of a slot that users fall into by hash, those with one of their own, `4096:ada 4097:bob`; null: none.
-- pool: of a user's own slot, the pool that the user is assigned to; null of all others.
ALTER TABLE slots
    DROP CONSTRAINT slots_slot_check,
    ADD CONSTRAINT slots_slot_check CHECK (slot BETWEEN 0 AND 5119),
    ADD COLUMN pinned text COLLATE "C",
    ADD COLUMN pool text COLLATE "C";
ALTER TABLE nodes ADD COLUMN pool text COLLATE "C" NOT NULL DEFAULT 'shared';
