-- What came of decisions that were carried out; a session may tell so several times.

CREATE TABLE decision_outcome (
    id INTEGER PRIMARY KEY,
    decision_id INTEGER NOT NULL REFERENCES decision (id),
    -- The target that answered last; NULL when none did.
    target_id INTEGER REFERENCES target (id),
    -- What was run, how long it took and what failed.
    document TEXT NOT NULL CHECK (json_valid(document)),
    created_unix_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX decision_outcome_by_decision ON decision_outcome (decision_id);
