-- The tables of a ledger. Each kind of row has the columns of its record, in their order, an order of arrival (pos)
-- and the store that it belongs to (authority). No order is ever read from a time.

CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    store_uuid TEXT NOT NULL,
    schema_version INTEGER NOT NULL,
    min_reader INTEGER NOT NULL,
    min_writer INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    written_by TEXT NOT NULL,
    epoch INTEGER NOT NULL DEFAULT 1
);

CREATE TABLE task (
    pos INTEGER PRIMARY KEY,
    inc TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    task_id TEXT NOT NULL,
    seq INTEGER NOT NULL CHECK (seq > 0),
    root_inc TEXT NOT NULL,
    parent_inc TEXT,
    state TEXT NOT NULL CHECK (state IN ('running', 'cancel_requested', 'draining', 'cancelled_settled',
                                         'stopped_unresolved', 'completed', 'failed')),
    revision INTEGER NOT NULL CHECK (revision > 0),
    promise TEXT NOT NULL CHECK (promise IN ('stop-generating', 'no-new-actions', 'ask-provider', 'prevent-delivery')),
    policy TEXT NOT NULL CHECK (policy IN ('suppress', 'deliver')),
    lease_gen INTEGER NOT NULL CHECK (lease_gen >= 0),
    execution TEXT NOT NULL CHECK (execution IN ('idle', 'active', 'stop_observed', 'fenced', 'unproven')),
    outcome_ref TEXT,
    late_outcome_ref TEXT,
    submitted_at REAL NOT NULL,
    ended_at REAL,
    authority TEXT NOT NULL,
    UNIQUE (tenant, task_id, seq)
);
CREATE UNIQUE INDEX task_open ON task (tenant, task_id)
    WHERE state IN ('running', 'cancel_requested', 'draining', 'stopped_unresolved');

CREATE TABLE cancellation (
    pos INTEGER PRIMARY KEY,
    cr TEXT NOT NULL UNIQUE,
    inc TEXT NOT NULL UNIQUE REFERENCES task (inc),
    accepted_rev INTEGER NOT NULL,
    scope TEXT NOT NULL CHECK (scope IN ('self', 'subtree')),
    requester TEXT NOT NULL,
    reason TEXT,
    auth_ref TEXT,
    covered_by TEXT,
    level TEXT NOT NULL CHECK (level IN ('cancel', 'kill')),
    at REAL NOT NULL,
    authority TEXT NOT NULL,
    told INTEGER NOT NULL UNIQUE -- rises with each acceptance and each rise of a level: what a watcher asks for
);

CREATE TABLE lease (
    pos INTEGER PRIMARY KEY,
    inc TEXT NOT NULL UNIQUE REFERENCES task (inc),
    gen INTEGER NOT NULL CHECK (gen > 0),
    holder TEXT NOT NULL,
    live INTEGER NOT NULL CHECK (live IN (0, 1)),
    drain_only INTEGER NOT NULL CHECK (drain_only IN (0, 1)),
    acknowledged INTEGER NOT NULL CHECK (acknowledged IN (0, 1)),
    taken_at REAL NOT NULL,
    authority TEXT NOT NULL
);

-- the tables of which an incarnation may have many rows name their task without a constraint: when it is purged, they
-- go in pieces, after it
CREATE TABLE activity (
    pos INTEGER PRIMARY KEY,
    inc TEXT NOT NULL,
    ref TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    gen INTEGER NOT NULL,
    process TEXT,
    begun_at REAL NOT NULL,
    signal TEXT,
    signalled_at REAL,
    evidence TEXT CHECK (evidence IN ('signal_queued', 'handler_stopped', 'provider_confirmed')),
    stopped INTEGER NOT NULL CHECK (stopped IN (0, 1)),
    severed INTEGER NOT NULL CHECK (severed IN (0, 1)),
    ended_at REAL,
    detail TEXT,
    authority TEXT NOT NULL,
    UNIQUE (inc, ref)
);
CREATE INDEX activity_open ON activity (inc, severed) WHERE stopped = 0;

CREATE TABLE child (
    pos INTEGER PRIMARY KEY,
    parent_inc TEXT NOT NULL,
    child_inc TEXT NOT NULL,
    registered_rev INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('registered', 'started', 'never_started', 'ended', 'detached')),
    authority TEXT NOT NULL,
    UNIQUE (parent_inc, child_inc)
);

CREATE TABLE shared (
    pos INTEGER PRIMARY KEY,
    shared_id TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'cancel_requested', 'ended')),
    revision INTEGER NOT NULL CHECK (revision > 0),
    authority TEXT NOT NULL
);

CREATE TABLE interest (
    pos INTEGER PRIMARY KEY,
    shared_id TEXT NOT NULL REFERENCES shared (shared_id),
    inc TEXT NOT NULL,
    live INTEGER NOT NULL CHECK (live IN (0, 1)),
    released_by TEXT,
    authority TEXT NOT NULL,
    UNIQUE (shared_id, inc)
);
CREATE INDEX interest_of ON interest (inc);

CREATE TABLE detached (
    pos INTEGER PRIMARY KEY,
    ref TEXT NOT NULL,
    from_inc TEXT NOT NULL,
    owner TEXT NOT NULL,
    contract TEXT NOT NULL,
    at REAL NOT NULL,
    came_back TEXT,
    authority TEXT NOT NULL,
    UNIQUE (from_inc, ref)
);

CREATE TABLE effect (
    pos INTEGER PRIMARY KEY,
    effect_id TEXT NOT NULL UNIQUE,
    inc TEXT NOT NULL,
    intent_key TEXT NOT NULL,
    kind TEXT NOT NULL,
    payload_sha TEXT NOT NULL,
    admitted_rev INTEGER NOT NULL,
    gen INTEGER NOT NULL,
    phase TEXT NOT NULL CHECK (phase IN ('admitted', 'claimed', 'suppressed', 'closed')),
    disposition TEXT NOT NULL CHECK (disposition IN ('pending', 'suppressed', 'rejected', 'completed',
                                                     'provider_cancelled', 'unknown')),
    adapter TEXT,
    request_ref TEXT,
    reconcilable INTEGER NOT NULL CHECK (reconcilable IN (0, 1)),
    consequence TEXT NOT NULL CHECK (consequence IN ('low', 'medium', 'high')),
    claim TEXT,
    after_cutoff INTEGER NOT NULL CHECK (after_cutoff IN (0, 1)),
    receipt_sha TEXT,
    closed_by TEXT,
    compensates TEXT REFERENCES effect (effect_id) ON DELETE CASCADE,
    auth_ref TEXT,
    at REAL NOT NULL,
    authority TEXT NOT NULL,
    -- a definitive disposition has its receipt, one that is known to nobody has none
    CHECK ((disposition IN ('rejected', 'completed', 'provider_cancelled')) = (receipt_sha IS NOT NULL)),
    CHECK ((phase = 'suppressed') = (disposition = 'suppressed')),
    CHECK ((phase IN ('admitted', 'claimed')) = (disposition = 'pending')),
    CHECK (closed_by IS NULL OR disposition IN ('unknown', 'rejected', 'completed', 'provider_cancelled')),
    FOREIGN KEY (effect_id, receipt_sha) REFERENCES receipt (effect_id, body_sha)
);
CREATE INDEX effect_of ON effect (inc, intent_key);
CREATE INDEX effect_open ON effect (inc) WHERE disposition IN ('pending', 'unknown');
CREATE UNIQUE INDEX effect_unknown ON effect (inc, intent_key) WHERE disposition = 'unknown' AND compensates IS NULL;
CREATE UNIQUE INDEX effect_compensates ON effect (compensates, kind) WHERE compensates IS NOT NULL;

CREATE TABLE payload (
    effect_id TEXT PRIMARY KEY REFERENCES effect (effect_id) ON DELETE CASCADE,
    body BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE receipt (
    pos INTEGER PRIMARY KEY,
    effect_id TEXT NOT NULL REFERENCES effect (effect_id) ON DELETE CASCADE,
    source TEXT NOT NULL,
    body_sha TEXT NOT NULL,
    body TEXT NOT NULL,
    establishes TEXT NOT NULL,
    at REAL NOT NULL,
    authority TEXT NOT NULL,
    UNIQUE (effect_id, body_sha)
);

-- the turns that worked on an incarnation; one without an end runs, or was lost with its process
CREATE TABLE turn (
    pos INTEGER PRIMARY KEY,
    turn_id TEXT NOT NULL UNIQUE,
    inc TEXT NOT NULL,
    gen INTEGER NOT NULL CHECK (gen > 0),
    holder TEXT NOT NULL,
    session TEXT,
    name TEXT,
    command TEXT,
    folder TEXT,
    begun_at REAL NOT NULL,
    ended_at REAL,
    outcome TEXT CHECK (outcome IN ('completed', 'failed', 'cancelled', 'superseded')),
    report TEXT,
    output TEXT,
    lost TEXT,
    grace_s REAL,
    authority TEXT NOT NULL,
    CHECK ((outcome IS NULL) = (ended_at IS NULL))
);
CREATE INDEX turn_of ON turn (inc);

-- what happened, in the order of the store (pos) and of each incarnation (n)
CREATE TABLE log (
    pos INTEGER PRIMARY KEY,
    inc TEXT NOT NULL,
    n INTEGER NOT NULL CHECK (n > 0),
    kind TEXT NOT NULL,
    actor TEXT NOT NULL,
    authority TEXT NOT NULL,
    read_only INTEGER NOT NULL CHECK (read_only IN (0, 1)),
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    at REAL NOT NULL,
    prev_hash TEXT NOT NULL,
    hash TEXT NOT NULL,
    UNIQUE (inc, n)
);

-- where the log of each incarnation ends
CREATE TABLE head (
    inc TEXT PRIMARY KEY,
    n INTEGER NOT NULL,
    hash TEXT NOT NULL
) WITHOUT ROWID;

-- what is left of an incarnation that was purged
CREATE TABLE tombstone (
    inc TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    task_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    state TEXT NOT NULL,
    cr TEXT,
    accepted_rev INTEGER,
    told INTEGER,
    lines INTEGER NOT NULL,
    last_pos INTEGER NOT NULL,
    digest TEXT NOT NULL,
    at REAL NOT NULL,
    authority TEXT NOT NULL,
    UNIQUE (tenant, task_id, seq)
);
CREATE INDEX tombstone_pos ON tombstone (last_pos);
CREATE INDEX tombstone_told ON tombstone (told);
CREATE INDEX tombstone_at ON tombstone (at);

-- purged incarnations of which not all rows are gone yet
CREATE TABLE remains (
    inc TEXT PRIMARY KEY REFERENCES tombstone (inc)
) WITHOUT ROWID;

-- what is left of all the tombstones that were dropped: how many, what they stood for, and a hash over them in order
CREATE TABLE forgotten (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    tombstones INTEGER NOT NULL,
    lines INTEGER NOT NULL,
    told INTEGER NOT NULL,
    last_pos INTEGER NOT NULL,
    digest TEXT NOT NULL,
    at REAL NOT NULL
);

CREATE TRIGGER log_stays BEFORE UPDATE ON log
BEGIN SELECT RAISE(ABORT, 'the log is only ever added to'); END;
CREATE TRIGGER log_kept BEFORE DELETE ON log WHEN NOT EXISTS (SELECT 1 FROM tombstone WHERE inc = OLD.inc)
BEGIN SELECT RAISE(ABORT, 'the log of what is not purged is kept'); END;
CREATE TRIGGER receipt_stays BEFORE UPDATE ON receipt
BEGIN SELECT RAISE(ABORT, 'a receipt never changes'); END;
CREATE TRIGGER payload_stays BEFORE UPDATE ON payload
BEGIN SELECT RAISE(ABORT, 'a payload never changes'); END;
CREATE TRIGGER tombstone_stays BEFORE UPDATE ON tombstone
BEGIN SELECT RAISE(ABORT, 'a tombstone never changes'); END;
CREATE TRIGGER tombstone_kept BEFORE DELETE ON tombstone
    WHEN NOT EXISTS (SELECT 1 FROM forgotten WHERE last_pos >= OLD.last_pos)
BEGIN SELECT RAISE(ABORT, 'a tombstone is dropped with a record of it'); END;
CREATE TRIGGER forgotten_stays BEFORE UPDATE ON forgotten
    WHEN NEW.tombstones < OLD.tombstones OR NEW.lines < OLD.lines OR NEW.told < OLD.told OR NEW.last_pos < OLD.last_pos
BEGIN SELECT RAISE(ABORT, 'what was dropped is not less again'); END;
CREATE TRIGGER forgotten_kept BEFORE DELETE ON forgotten
BEGIN SELECT RAISE(ABORT, 'the record of what was dropped is kept'); END;
CREATE TRIGGER effect_kept BEFORE DELETE ON effect WHEN NOT EXISTS (SELECT 1 FROM tombstone WHERE inc = OLD.inc)
BEGIN SELECT RAISE(ABORT, 'the effects of what is not purged are kept'); END;
CREATE TRIGGER task_kept BEFORE DELETE ON task WHEN NOT EXISTS (SELECT 1 FROM tombstone WHERE inc = OLD.inc)
BEGIN SELECT RAISE(ABORT, 'a task that is not purged is kept'); END;
CREATE TRIGGER cancellation_kept BEFORE DELETE ON cancellation
    WHEN NOT EXISTS (SELECT 1 FROM tombstone WHERE inc = OLD.inc)
BEGIN SELECT RAISE(ABORT, 'a cancellation is not taken back'); END;
CREATE TRIGGER cancellation_stays BEFORE UPDATE ON cancellation
    WHEN NEW.cr IS NOT OLD.cr OR NEW.inc IS NOT OLD.inc OR NEW.accepted_rev IS NOT OLD.accepted_rev
        OR NEW.scope IS NOT OLD.scope OR NEW.requester IS NOT OLD.requester OR NEW.reason IS NOT OLD.reason
        OR NEW.auth_ref IS NOT OLD.auth_ref OR NEW.at IS NOT OLD.at
        OR (OLD.level = 'kill' AND NEW.level <> 'kill')
        OR (OLD.covered_by IS NOT NULL AND NEW.covered_by IS NOT OLD.covered_by)
BEGIN SELECT RAISE(ABORT, 'of a cancellation only the level rises'); END;
CREATE TRIGGER task_goes_on BEFORE UPDATE OF state, revision ON task
    WHEN (NEW.state = 'running' AND OLD.state <> 'running') OR NEW.revision < OLD.revision
        OR (OLD.state IN ('completed', 'failed', 'cancelled_settled') AND NEW.state <> OLD.state)
BEGIN SELECT RAISE(ABORT, 'nothing leads back to running'); END;
CREATE TRIGGER effect_stays BEFORE UPDATE ON effect
    WHEN NEW.payload_sha IS NOT OLD.payload_sha OR NEW.admitted_rev IS NOT OLD.admitted_rev
        OR NEW.intent_key IS NOT OLD.intent_key OR NEW.inc IS NOT OLD.inc OR NEW.kind IS NOT OLD.kind
        OR (OLD.disposition IN ('rejected', 'completed', 'provider_cancelled', 'suppressed')
            AND NEW.disposition <> OLD.disposition)
        OR (OLD.phase = 'claimed' AND NEW.phase NOT IN ('claimed', 'closed'))
BEGIN SELECT RAISE(ABORT, 'what is known of an effect is not unknown again'); END;
CREATE TRIGGER turn_stays BEFORE UPDATE ON turn
    WHEN NEW.inc IS NOT OLD.inc OR NEW.gen IS NOT OLD.gen OR NEW.holder IS NOT OLD.holder
        OR NEW.command IS NOT OLD.command OR NEW.begun_at IS NOT OLD.begun_at OR OLD.ended_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a turn that has ended stays as it was told'); END;
