#!/usr/bin/env python3
"""Makes assets/columns.json, the columns of scene 7 where no robots can measure them, from the shipped lesson.

    python scripts/make_columns.py
"""

import gzip
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def changed(value, change):
    """A value after a change, as crates/recording/src/change.rs has it."""
    if "to" in change:
        return change["to"]
    if fields := change.get("fields"):
        after = {key: old for key, old in value.items() if key not in fields.get("gone", [])}
        return after | {key: changed(after.get(key), part) for key, part in fields.get("set", {}).items()}
    parts = change["list"]
    after = value[parts.get("drop", 0) :]
    for place, part in parts.get("at", {}).items():
        after[int(place)] = changed(after[int(place)], part)
    return after + parts.get("add", [])


def main():
    room = None
    with gzip.open(ROOT / "assets/lesson.unmask", "rt") as lines:
        for line in map(json.loads, lines):
            if state := line.get("state"):
                room = changed(room, state["change"])
    text = json.dumps(room["columns"], indent=2, sort_keys=True)
    (ROOT / "assets/columns.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
