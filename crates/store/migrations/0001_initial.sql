-- Everything that was measured, learned and decided on this machine.
--
-- Trials and samples are only ever added; what is derived from them names its method.
-- Durations are whole nanoseconds, moments are milliseconds since 1970 UTC. A 64-bit seed is
-- stored as the signed number with the same bits. Documents are JSON.

CREATE TABLE host (
    id INTEGER PRIMARY KEY,
    hardware_id TEXT NOT NULL CHECK (hardware_id <> ''),
    facts TEXT NOT NULL CHECK (json_valid(facts)),
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    recorded_unix_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE chip (
    key TEXT PRIMARY KEY CHECK (key <> ''),
    document TEXT NOT NULL CHECK (json_valid(document)),
    recorded_unix_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Another version of the provider is another row, so that its measurements stay apart.
CREATE TABLE target (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL CHECK (key <> ''),
    provider TEXT NOT NULL,
    provider_version TEXT NOT NULL,
    chip_key TEXT NOT NULL REFERENCES chip (key),
    chip_kind TEXT NOT NULL CHECK (chip_kind IN ('cpu', 'gpu', 'npu')),
    options TEXT NOT NULL CHECK (json_valid(options)),
    fingerprint TEXT NOT NULL AS (provider || '@' || provider_version || ' ' || options) VIRTUAL,
    recorded_unix_ms INTEGER NOT NULL,
    UNIQUE (key, provider_version, options)
) STRICT;

-- What looking for targets found under one fingerprint of host, packages and program.
CREATE TABLE discovery (
    fingerprint TEXT PRIMARY KEY CHECK (fingerprint <> ''),
    document TEXT NOT NULL CHECK (json_valid(document)),
    recorded_unix_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE model (
    id INTEGER PRIMARY KEY,
    sha256 BLOB NOT NULL UNIQUE CHECK (length(sha256) = 32),
    name TEXT NOT NULL,
    facts TEXT NOT NULL CHECK (json_valid(facts)),
    last_seen_path TEXT,
    licence TEXT,
    source TEXT,
    recorded_unix_ms INTEGER NOT NULL
) STRICT;

-- Lets an unchanged file be recognised without reading it.
CREATE TABLE model_file (
    path TEXT PRIMARY KEY,
    size_bytes INTEGER NOT NULL CHECK (size_bytes >= 0),
    modified_unix_ns INTEGER NOT NULL,
    model_id INTEGER NOT NULL REFERENCES model (id)
) STRICT, WITHOUT ROWID;

CREATE TABLE model_case (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    model_id INTEGER NOT NULL REFERENCES model (id),
    bindings TEXT NOT NULL CHECK (json_valid(bindings)),
    facts TEXT NOT NULL CHECK (json_valid(facts)),
    recorded_unix_ms INTEGER NOT NULL,
    UNIQUE (model_id, bindings)
) STRICT;

CREATE TABLE campaign (
    id INTEGER PRIMARY KEY,
    host_id INTEGER REFERENCES host (id),
    purpose TEXT NOT NULL CHECK (purpose IN ('learn', 'verify', 'bench')),
    seed INTEGER NOT NULL,
    program_version TEXT NOT NULL,
    program_commit TEXT,
    started_unix_ms INTEGER NOT NULL,
    finished_unix_ms INTEGER,
    state TEXT NOT NULL CHECK (state IN ('running', 'finished', 'interrupted')),
    plan TEXT NOT NULL CHECK (json_valid(plan)),
    CHECK ((state = 'running') = (finished_unix_ms IS NULL))
) STRICT;

CREATE TABLE trial (
    id INTEGER PRIMARY KEY,
    campaign_id INTEGER NOT NULL REFERENCES campaign (id),
    target_id INTEGER NOT NULL REFERENCES target (id),
    case_id INTEGER NOT NULL REFERENCES model_case (id),
    workload TEXT NOT NULL CHECK (workload IN ('sustained', 'idle_loaded', 'cold_start')),
    purpose TEXT NOT NULL CHECK (purpose IN ('learn', 'verify', 'bench')),
    started_unix_ms INTEGER NOT NULL,
    order_seed INTEGER NOT NULL,
    input_seed INTEGER NOT NULL,
    conditions TEXT NOT NULL CHECK (json_valid(conditions)),
    status TEXT NOT NULL CHECK (status IN ('ok', 'failed')),
    failure_kind TEXT CHECK (
        failure_kind IN ('refused', 'crashed', 'timed_out', 'memory_exceeded', 'fell_back')
    ),
    failure_detail TEXT,
    session_create_ns INTEGER CHECK (session_create_ns >= 0),
    first_run_ns INTEGER CHECK (first_run_ns >= 0),
    warmup_calls INTEGER CHECK (warmup_calls >= 0),
    busy_cores REAL,
    busy_cores_absence TEXT,
    peak_resident_bytes INTEGER CHECK (peak_resident_bytes >= 0),
    peak_resident_absence TEXT,
    placement TEXT CHECK (json_valid(placement)),
    outputs TEXT CHECK (json_valid(outputs)),
    samples INTEGER NOT NULL CHECK (samples >= 0),
    CHECK (
        CASE status
            WHEN 'ok' THEN
                failure_kind IS NULL AND failure_detail IS NULL
                AND session_create_ns IS NOT NULL AND first_run_ns IS NOT NULL
                AND warmup_calls IS NOT NULL
                AND (busy_cores IS NULL) = (busy_cores_absence IS NOT NULL)
                AND (peak_resident_bytes IS NULL) = (peak_resident_absence IS NOT NULL)
                AND placement IS NOT NULL AND outputs IS NOT NULL
            ELSE
                failure_kind IS NOT NULL AND failure_detail IS NOT NULL AND samples = 0
        END
    )
) STRICT;

CREATE INDEX trial_by_campaign ON trial (campaign_id);
CREATE INDEX trial_by_case ON trial (case_id, target_id, workload);

CREATE TABLE sample (
    trial_id INTEGER NOT NULL REFERENCES trial (id),
    sequence INTEGER NOT NULL CHECK (sequence >= 0),
    round INTEGER NOT NULL CHECK (round >= 0),
    calls INTEGER NOT NULL CHECK (calls >= 1),
    total_ns INTEGER NOT NULL CHECK (total_ns >= 0),
    PRIMARY KEY (trial_id, sequence)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER sample_is_never_changed BEFORE UPDATE ON sample
BEGIN SELECT raise(ABORT, 'raw samples are never changed'); END;

CREATE TRIGGER sample_is_never_deleted BEFORE DELETE ON sample
BEGIN SELECT raise(ABORT, 'raw samples are never deleted'); END;

CREATE TRIGGER trial_is_never_changed BEFORE UPDATE ON trial
BEGIN SELECT raise(ABORT, 'trials are never changed'); END;

CREATE TRIGGER trial_is_never_deleted BEFORE DELETE ON trial
BEGIN SELECT raise(ABORT, 'trials are never deleted'); END;

-- Derived from the samples; a row of an older method is replaced.
CREATE TABLE trial_summary (
    trial_id INTEGER PRIMARY KEY REFERENCES trial (id),
    method INTEGER NOT NULL,
    document TEXT NOT NULL CHECK (json_valid(document))
) STRICT;

CREATE TABLE fit (
    id INTEGER PRIMARY KEY,
    target_id INTEGER NOT NULL REFERENCES target (id),
    workload TEXT NOT NULL CHECK (workload IN ('sustained', 'idle_loaded', 'cold_start')),
    form TEXT NOT NULL,
    document TEXT NOT NULL CHECK (json_valid(document)),
    method INTEGER NOT NULL,
    input_digest BLOB NOT NULL CHECK (length(input_digest) = 32),
    created_unix_ms INTEGER NOT NULL,
    UNIQUE (target_id, workload, input_digest, method)
) STRICT;

CREATE TABLE decision (
    id INTEGER PRIMARY KEY,
    case_id INTEGER NOT NULL REFERENCES model_case (id),
    workload TEXT NOT NULL CHECK (workload IN ('sustained', 'idle_loaded', 'cold_start')),
    goal TEXT NOT NULL,
    accuracy TEXT NOT NULL,
    chosen_target_id INTEGER REFERENCES target (id),
    document TEXT NOT NULL CHECK (json_valid(document)),
    created_unix_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX decision_by_case ON decision (case_id, workload, goal, accuracy);

CREATE TABLE verification (
    id INTEGER PRIMARY KEY,
    decision_id INTEGER NOT NULL REFERENCES decision (id),
    campaign_id INTEGER REFERENCES campaign (id),
    chosen_target_id INTEGER REFERENCES target (id),
    best_target_id INTEGER REFERENCES target (id),
    regret_pct REAL CHECK (regret_pct >= 0),
    document TEXT NOT NULL CHECK (json_valid(document)),
    created_unix_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX verification_by_decision ON verification (decision_id);
CREATE INDEX verification_by_campaign ON verification (campaign_id);
