#!/usr/bin/env python3
"""check-evaluation.py first|second|alone FILE: checks what `siliconroute up --once --json` printed.

first: published models and several targets were measured, and no single target is the best for all.
second: the same decisions, and nothing was measured for them.
alone: without packages and network the embedded engine still serves.
"""

import json
import pathlib
import sys


def main() -> None:
    """Checks one document and prints what it was checked for."""
    start, path = sys.argv[1:]
    document = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    decisions = document["decisions"]
    models = {decision["model"] for decision in decisions}
    targets = {target for decision in decisions for target in decision["times_ms"]}
    chosen = {decision["chosen"] for decision in decisions if decision["chosen"]}
    published = {decision["model"] for decision in decisions if not decision["synthetic"]}
    measured = document["measured_trials"]
    print(
        f"{start} start: {len(decisions)} decisions, {len(published)} published models of {len(models)}, "
        f"{len(targets)} targets, chosen {sorted(chosen)}, {measured} trials measured"
    )
    for notice in document["notices"]:
        print(f"  notice: {notice}")

    wanted = {
        "the schema is siliconroute.evaluation/1": document["schema"] == "siliconroute.evaluation/1",
        "every decision has a chosen target": all(decision["chosen"] for decision in decisions),
    }
    if start in ("first", "second"):
        wanted["at least 6 published models"] = len(published) >= 6
        wanted["at least 4 targets"] = len(targets) >= 4
        wanted["at least 2 different chosen targets"] = len(chosen) >= 2
    if start == "second":
        wanted["nothing measured"] = measured == 0
    else:
        wanted["something measured"] = measured > 0
    if start == "alone":
        wanted["the embedded engine serves"] = any(target.endswith("/rten") for target in targets)
    missing = [what for what, holds in wanted.items() if not holds]
    if missing or not decisions:
        sys.exit(f"{start} start: not so: {', '.join(missing) or 'there are decisions'}")


main()
