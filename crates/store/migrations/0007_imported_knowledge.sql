-- What other machines measured, kept apart from this machine's trials.

-- A file that was imported. Its number names it to the user, so no later file gets the same one.
CREATE TABLE knowledge_origin (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Of the file's bytes.
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    file TEXT NOT NULL,
    hardware_id TEXT NOT NULL CHECK (hardware_id <> ''),
    os TEXT NOT NULL,
    program_version TEXT NOT NULL,
    exported_unix_day INTEGER NOT NULL,
    imported_unix_ms INTEGER NOT NULL
) STRICT;

-- Facts of a case without its names, which this machine need not know.
CREATE TABLE imported_case (
    origin_id INTEGER NOT NULL REFERENCES knowledge_origin (id),
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    sha256 BLOB NOT NULL CHECK (length(sha256) = 32),
    facts TEXT NOT NULL CHECK (json_valid(facts)),
    PRIMARY KEY (origin_id, digest)
) STRICT, WITHOUT ROWID;

-- What one session of another machine measured.
CREATE TABLE imported_time (
    id INTEGER PRIMARY KEY,
    origin_id INTEGER NOT NULL REFERENCES knowledge_origin (id),
    -- Tells the session from every other one: files that share one come from one machine.
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    case_digest BLOB NOT NULL CHECK (length(case_digest) = 32),
    workload TEXT NOT NULL CHECK (workload IN ('sustained', 'idle_loaded', 'cold_start')),
    median_ns REAL NOT NULL CHECK (median_ns > 0),
    document TEXT NOT NULL CHECK (json_valid(document)),
    UNIQUE (origin_id, digest),
    FOREIGN KEY (origin_id, case_digest) REFERENCES imported_case (origin_id, digest)
) STRICT;

CREATE INDEX imported_time_by_case ON imported_time (case_digest);

-- Imported values can be removed with their origin, and never changed.
CREATE TRIGGER imported_time_is_never_changed BEFORE UPDATE ON imported_time
BEGIN SELECT raise(ABORT, 'imported times are never changed'); END;
