-- Times that runs have shown to have changed: what was measured before counts for less, and the case is measured again.

CREATE TABLE doubt (
    id INTEGER PRIMARY KEY,
    hardware_id TEXT NOT NULL,
    target_id INTEGER NOT NULL REFERENCES target (id),
    case_id INTEGER NOT NULL REFERENCES model_case (id),
    workload TEXT NOT NULL CHECK (workload IN ('sustained', 'idle_loaded', 'cold_start')),
    -- The new time over the one from before.
    ratio REAL NOT NULL CHECK (ratio > 0),
    since_unix_ms INTEGER NOT NULL,
    UNIQUE (hardware_id, target_id, case_id, workload)
) STRICT;
