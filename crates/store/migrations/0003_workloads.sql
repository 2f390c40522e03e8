-- What the three workloads add: the state before a sample, the memory of a session, doubts about a trial.

-- NULL stands for a running target, as in the sustained workload.
ALTER TABLE sample ADD COLUMN before TEXT CHECK (before IS NULL OR json_valid(before));

ALTER TABLE trial ADD COLUMN session_bytes INTEGER CHECK (session_bytes >= 0);
ALTER TABLE trial ADD COLUMN session_bytes_absence TEXT DEFAULT 'not recorded by the version that measured';
ALTER TABLE trial ADD COLUMN device_bytes INTEGER CHECK (device_bytes >= 0);
ALTER TABLE trial ADD COLUMN device_bytes_absence TEXT DEFAULT 'not recorded by the version that measured';

-- Why the trial may be of another chip than its target says; it is kept and teaches nothing.
ALTER TABLE trial ADD COLUMN suspect TEXT;

-- How the target was meant to be before each sample; NULL stands for warmed up and running.
ALTER TABLE trial ADD COLUMN preparation TEXT CHECK (preparation IS NULL OR json_valid(preparation));
