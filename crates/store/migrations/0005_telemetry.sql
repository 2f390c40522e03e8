-- What the sampler saw, and what meters of energy read for a trial.

-- Sets of sensors that tell nothing, with their reasons: the same for many looks in a row.
CREATE TABLE telemetry_absence (
    id INTEGER PRIMARY KEY,
    document TEXT NOT NULL UNIQUE CHECK (json_valid(document))
) STRICT;

-- One look at the machine; its values alone.
CREATE TABLE telemetry (
    id INTEGER PRIMARY KEY,
    campaign_id INTEGER REFERENCES campaign (id),
    taken_unix_ms INTEGER NOT NULL,
    took_ns INTEGER NOT NULL CHECK (took_ns >= 0),
    document TEXT NOT NULL CHECK (json_valid(document)),
    absence_id INTEGER NOT NULL REFERENCES telemetry_absence (id)
) STRICT;

CREATE INDEX telemetry_by_campaign ON telemetry (campaign_id);
CREATE INDEX telemetry_by_time ON telemetry (taken_unix_ms);

CREATE TRIGGER telemetry_is_never_changed BEFORE UPDATE ON telemetry
BEGIN SELECT raise(ABORT, 'telemetry is never changed'); END;

CREATE TRIGGER telemetry_is_never_deleted BEFORE DELETE ON telemetry
BEGIN SELECT raise(ABORT, 'telemetry is never deleted'); END;

CREATE TRIGGER telemetry_absence_is_never_changed BEFORE UPDATE ON telemetry_absence
BEGIN SELECT raise(ABORT, 'telemetry is never changed'); END;

-- A trial without a row was made without asking for energy.
CREATE TABLE trial_energy (
    trial_id INTEGER PRIMARY KEY REFERENCES trial (id),
    run TEXT CHECK (run IS NULL OR json_valid(run)),
    absence TEXT,
    CHECK ((run IS NULL) = (absence IS NOT NULL))
) STRICT;

CREATE TRIGGER trial_energy_is_never_changed BEFORE UPDATE ON trial_energy
BEGIN SELECT raise(ABORT, 'readings of energy are never changed'); END;

CREATE TRIGGER trial_energy_is_never_deleted BEFORE DELETE ON trial_energy
BEGIN SELECT raise(ABORT, 'readings of energy are never deleted'); END;
