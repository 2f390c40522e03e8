-- Runs that users asked for are measurements, too. A rule of a column cannot be changed, so the two tables that hold
-- the purpose are written anew; every id stays.

CREATE TABLE campaign_next (
    id INTEGER PRIMARY KEY,
    host_id INTEGER REFERENCES host (id),
    purpose TEXT NOT NULL CHECK (purpose IN ('learn', 'verify', 'bench', 'served')),
    seed INTEGER NOT NULL,
    program_version TEXT NOT NULL,
    program_commit TEXT,
    started_unix_ms INTEGER NOT NULL,
    finished_unix_ms INTEGER,
    state TEXT NOT NULL CHECK (state IN ('running', 'finished', 'interrupted')),
    plan TEXT NOT NULL CHECK (json_valid(plan)),
    CHECK ((state = 'running') = (finished_unix_ms IS NULL))
) STRICT;

INSERT INTO campaign_next (
    id, host_id, purpose, seed, program_version, program_commit, started_unix_ms, finished_unix_ms, state, plan
)
SELECT
    id, host_id, purpose, seed, program_version, program_commit, started_unix_ms, finished_unix_ms, state, plan
FROM campaign;

DROP TABLE campaign;
ALTER TABLE campaign_next RENAME TO campaign;

CREATE TABLE trial_next (
    id INTEGER PRIMARY KEY,
    campaign_id INTEGER NOT NULL REFERENCES campaign (id),
    target_id INTEGER NOT NULL REFERENCES target (id),
    case_id INTEGER NOT NULL REFERENCES model_case (id),
    workload TEXT NOT NULL CHECK (workload IN ('sustained', 'idle_loaded', 'cold_start')),
    purpose TEXT NOT NULL CHECK (purpose IN ('learn', 'verify', 'bench', 'served')),
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
    placement TEXT CHECK (placement IS NULL OR json_valid(placement)),
    outputs TEXT CHECK (outputs IS NULL OR json_valid(outputs)),
    samples INTEGER NOT NULL CHECK (samples >= 0),
    session_bytes INTEGER CHECK (session_bytes >= 0),
    session_bytes_absence TEXT DEFAULT 'not recorded by the version that measured',
    device_bytes INTEGER CHECK (device_bytes >= 0),
    device_bytes_absence TEXT DEFAULT 'not recorded by the version that measured',
    -- Why the trial may be of another chip than its target says; it is kept and teaches nothing.
    suspect TEXT,
    -- How the target was meant to be before each sample; NULL stands for warmed up and running.
    preparation TEXT CHECK (preparation IS NULL OR json_valid(preparation)),
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

INSERT INTO trial_next (
    id, campaign_id, target_id, case_id, workload, purpose, started_unix_ms, order_seed,
    input_seed, conditions, status, failure_kind, failure_detail, session_create_ns,
    first_run_ns, warmup_calls, busy_cores, busy_cores_absence, peak_resident_bytes,
    peak_resident_absence, placement, outputs, samples, session_bytes, session_bytes_absence,
    device_bytes, device_bytes_absence, suspect, preparation
)
SELECT
    id, campaign_id, target_id, case_id, workload, purpose, started_unix_ms, order_seed,
    input_seed, conditions, status, failure_kind, failure_detail, session_create_ns,
    first_run_ns, warmup_calls, busy_cores, busy_cores_absence, peak_resident_bytes,
    peak_resident_absence, placement, outputs, samples, session_bytes, session_bytes_absence,
    device_bytes, device_bytes_absence, suspect, preparation
FROM trial;

DROP TABLE trial;
ALTER TABLE trial_next RENAME TO trial;

CREATE INDEX trial_by_campaign ON trial (campaign_id);
CREATE INDEX trial_by_case ON trial (case_id, target_id, workload);

CREATE TRIGGER trial_is_never_changed BEFORE UPDATE ON trial
BEGIN SELECT raise(ABORT, 'trials are never changed'); END;

CREATE TRIGGER trial_is_never_deleted BEFORE DELETE ON trial
BEGIN SELECT raise(ABORT, 'trials are never deleted'); END;
