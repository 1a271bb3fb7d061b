"""Counts what a record decided: `count_verdicts.py FOLDER SECONDS` prints one line.

The line has the wall time, the measured and planned cells, and the decided and measured rows. A row
that is waived, and the row of the reference, which has no level, count in neither.
"""

import json
import pathlib
import sys


def line(record, seconds):
    """One line for a record.

    >>> cell = {"outcome": "measured"}
    >>> rows = [{"mechanism": "mps", "outcome": "measured", "level": "L0"},
    ...         {"mechanism": "mps", "outcome": "inconclusive", "level": "L0..L1"},
    ...         {"mechanism": "mig", "outcome": "waived"},
    ...         {"mechanism": "exclusive", "outcome": "measured"}]
    >>> plan = {"profile": "smoke", "reference": "exclusive"}
    >>> record = {"plan": plan, "cells": [cell, {}], "matrix": rows}
    >>> line(record, 7)
    'smoke: 7 s, 1 of 2 cells measured, 1 of 2 rows decided'
    """
    cells = record["cells"]
    measured = sum(cell.get("outcome") == "measured" for cell in cells)
    ran = [row for row in record["matrix"] if row["outcome"] in ("measured", "inconclusive")]
    reference = record["plan"]["reference"]
    rows = [row for row in ran if row["mechanism"] != reference]
    # Of a row that straddles a boundary both levels are printed: L1..L2.
    decided = sum(".." not in (row.get("level") or "..") for row in rows)
    profile = record["plan"]["profile"]
    return (
        f"{profile}: {seconds} s, {measured} of {len(cells)} cells measured, "
        f"{decided} of {len(rows)} rows decided"
    )


if __name__ == "__main__":
    RECORD = json.loads((pathlib.Path(sys.argv[1]) / "record.json").read_text())
    print(line(RECORD, sys.argv[2]), flush=True)
