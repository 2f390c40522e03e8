-- The settings of threads that suit a case on a machine, one for each target; a new tuning replaces the old one.

CREATE TABLE model_tuning (
    id INTEGER PRIMARY KEY,
    hardware_id TEXT NOT NULL,
    case_id INTEGER NOT NULL REFERENCES model_case (id),
    -- The target as its engine knows it, without settings.
    target_key TEXT NOT NULL,
    provider_version TEXT NOT NULL,
    -- The settings that sessions take; those of the engine where it says none.
    settings TEXT NOT NULL CHECK (json_valid(settings)),
    campaign_id INTEGER REFERENCES campaign (id),
    -- What was tried and what came of it.
    document TEXT NOT NULL CHECK (json_valid(document)),
    created_unix_ms INTEGER NOT NULL,
    UNIQUE (hardware_id, case_id, target_key)
) STRICT;

CREATE INDEX model_tuning_by_case ON model_tuning (case_id);
