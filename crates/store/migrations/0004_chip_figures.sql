-- What a chip was measured to be capable of; rows are only ever added, and the latest of each kind counts.
--
-- The CPU of every machine has the key `cpu`, so a figure also names the machine.

CREATE TABLE chip_figure (
    id INTEGER PRIMARY KEY,
    chip_key TEXT NOT NULL REFERENCES chip (key),
    hardware_id TEXT NOT NULL CHECK (hardware_id <> ''),
    quantity TEXT NOT NULL CHECK (quantity IN ('read_bandwidth', 'peak_throughput', 'dispatch_overhead')),
    level TEXT CHECK (level IN ('l1', 'l2', 'l3', 'memory')),
    working_set_bytes INTEGER CHECK (working_set_bytes > 0),
    threads INTEGER NOT NULL CHECK (threads >= 1),
    value REAL NOT NULL CHECK (value > 0),
    samples TEXT NOT NULL CHECK (json_valid(samples)),
    method INTEGER NOT NULL,
    measured_unix_ms INTEGER NOT NULL,
    CHECK ((quantity = 'read_bandwidth') = (level IS NOT NULL)),
    CHECK ((level IS NULL) = (working_set_bytes IS NULL))
) STRICT;

CREATE INDEX chip_figure_by_chip ON chip_figure (chip_key, hardware_id);

CREATE TRIGGER chip_figure_is_never_changed BEFORE UPDATE ON chip_figure
BEGIN SELECT raise(ABORT, 'figures are never changed'); END;

CREATE TRIGGER chip_figure_is_never_deleted BEFORE DELETE ON chip_figure
BEGIN SELECT raise(ABORT, 'figures are never deleted'); END;
