-- Entries, slots with tenure, nodes with lease, ring epochs and ring changes (docs/PROTOCOL.md, section 2).
-- Applied once, inside one transaction, under the schema lock; `schema_version` is written by the program.

CREATE SEQUENCE version_seq AS bigint;
CREATE SEQUENCE tenure_seq AS bigint;
CREATE SEQUENCE l2space_seq AS bigint;

-- Keys and users compare and sort by their bytes: COLLATE "C".
CREATE TABLE entries (
    usr           text COLLATE "C" NOT NULL,
    key           text COLLATE "C" NOT NULL,
    value         bytea NOT NULL,
    content_type  text NOT NULL,
    cache_control text,
    version       bigint NOT NULL,
    updated_ms    bigint NOT NULL,
    PRIMARY KEY (usr, key)
);

CREATE TABLE nodes (
    id          text COLLATE "C" PRIMARY KEY,
    addr        text NOT NULL,
    weight      integer NOT NULL,
    incarnation bigint NOT NULL,
    lease_until timestamptz NOT NULL
);

CREATE TABLE slots (
    slot    integer PRIMARY KEY CHECK (slot BETWEEN 0 AND 4095),
    owner   text COLLATE "C" NOT NULL REFERENCES nodes (id),
    tenure  bigint NOT NULL,
    gained  bigint NOT NULL,
    l2space text
);

CREATE TABLE ring_changes (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action     text NOT NULL,
    from_epoch bigint NOT NULL,
    to_epoch   bigint NOT NULL,
    members    text NOT NULL,
    moves      text NOT NULL,
    phase      text NOT NULL CHECK (phase IN ('copy', 'sealed', 'flipped', 'done', 'aborted')),
    seal       text NOT NULL DEFAULT '[]',
    flip       text NOT NULL DEFAULT '[]',
    operator   text NOT NULL,
    reason     text,
    started_ms bigint NOT NULL,
    ended_ms   bigint
);

-- At most one change that is not over (C10: the next may start only after 'done').
CREATE UNIQUE INDEX ring_changes_one_active ON ring_changes ((phase IN ('copy', 'sealed', 'flipped')))
    WHERE phase IN ('copy', 'sealed', 'flipped');

CREATE TABLE ring_epochs (
    epoch      bigint PRIMARY KEY,
    members    text NOT NULL,
    change_id  bigint REFERENCES ring_changes (id),
    created_ms bigint NOT NULL
);
