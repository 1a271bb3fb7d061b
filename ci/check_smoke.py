"""Checks the report of a smoke run: `python3 ci/check_smoke.py REPORT.json`.

The report is the output of `gpubench report DIR --format json` for a run on the virtual GPU. This
checks that the run is complete and marked as virtual; other tests check the figures.
"""

import json
import sys

OUTCOMES = {"measured", "waived", "failed", "inconclusive"}

# The estimates of which a measured row has at least one.
ESTIMATES = (
    "retention",
    "guarantee",
    "efficiency",
    "effectiveness",
    "isolation_index",
    "jitter",
    "survival",
)


def problems(report):
    """What shows that the report is not of a complete run on the virtual GPU.

    >>> row = {"mechanism": "mps", "variant": "mps", "axis": "memory", "outcome": "measured"}
    >>> good = dict.fromkeys(["format_version", "provenance", "profile", "seed"], 1)
    >>> good |= {"overall": [], "cells": [], "claims": [], "mechanisms": [{}]}
    >>> good |= {"device": {"kind": "virtual", "name": "Virtual Hopper"}}
    >>> good |= {"matrix": [row | {"retention": {"value": 0.5, "n": 6}}]}
    >>> problems(good)
    []
    >>> problems(good | {"device": {"kind": "real", "name": "Virtual Hopper"}})
    ["device.kind is 'real' and not 'virtual'"]
    >>> problems(good | {"device": {"kind": "virtual", "name": "GPU"}})
    ["device.name 'GPU' does not start with 'Virtual'"]
    >>> problems(good | {"matrix": []})
    ['none of the 0 rows of the matrix is measured']
    >>> problems(good | {"mechanisms": []})
    ['no mechanism']
    >>> len(problems({}))
    11
    """
    found = []
    for key in ("format_version", "provenance", "profile", "seed", "overall", "cells", "claims"):
        if key not in report:
            found.append(f"no key {key!r}")
    device = report.get("device", {})
    if device.get("kind") != "virtual":
        found.append(f"device.kind is {device.get('kind')!r} and not 'virtual'")
    if not str(device.get("name", "")).startswith("Virtual"):
        found.append(f"device.name {device.get('name')!r} does not start with 'Virtual'")
    if not report.get("mechanisms"):
        found.append("no mechanism")
    return found + matrix_problems(report.get("matrix", []))


def matrix_problems(matrix):
    """Rows need a mechanism, an axis and an outcome, and at least one row must be measured.

    >>> place = {"mechanism": "mps", "variant": "mps", "axis": "memory"}
    >>> fine = place | {"outcome": "measured", "retention": {"value": 0.5, "n": 6}}
    >>> matrix_problems([fine, place | {"outcome": "waived", "reason": "no MIG here"}])
    []
    >>> matrix_problems([fine, place | {"outcome": "waived"}])
    ['matrix row 1 is waived without a reason']
    >>> matrix_problems([fine | {"retention": None}])
    ['matrix row 0 is measured and has no estimate']
    >>> matrix_problems([fine, {"outcome": "failed"}])
    ['matrix row 1 lacks mechanism, variant, axis']
    >>> matrix_problems([fine, place | {"outcome": "passed"}])
    ["matrix row 1 has the unknown outcome 'passed'"]
    """
    if not any(row.get("outcome") == "measured" for row in matrix):
        return [f"none of the {len(matrix)} rows of the matrix is measured"]
    found = []
    for index, row in enumerate(matrix):
        where = f"matrix row {index}"
        missing = [key for key in ("mechanism", "variant", "axis", "outcome") if key not in row]
        if missing:
            found.append(f"{where} lacks {', '.join(missing)}")
        elif row["outcome"] not in OUTCOMES:
            found.append(f"{where} has the unknown outcome {row['outcome']!r}")
        elif row["outcome"] == "measured" and not any(row.get(key) for key in ESTIMATES):
            found.append(f"{where} is measured and has no estimate")
        elif row["outcome"] != "measured" and not row.get("reason"):
            found.append(f"{where} is {row['outcome']} without a reason")
    return found


def main():
    """Prints the problems, or one line with the number of measured rows."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    found = problems(report)
    for problem in found:
        print(f"smoke report: {problem}", file=sys.stderr)
    if found:
        sys.exit(1)
    measured = sum(row["outcome"] == "measured" for row in report["matrix"])
    total = len(report["matrix"])
    print(f"{report['device']['name']}: {measured} of {total} rows of the matrix measured")


if __name__ == "__main__":
    main()
