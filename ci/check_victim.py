"""Holds a record whose victim was a foreign program against what it must say:
python3 THIS RECORD MECHANISM...

Only what holds on a busy machine is asked for: that the program was started under each mechanism,
was told when to work, that its requests became samples of the cells, and that each of the
mechanisms named was in force over it.
"""
import json
import sys


def wrong(record, mechanisms=()):
    """What is not as it must be.

    >>> wrong({"plan": {}, "cells": []})
    ['the plan names no program', 'no cell']
    >>> proof = {"check": "mapped", "holds": False, "evidence": "not into 7"}
    >>> row = {"name": "hami", "outcome": "failed", "reason": "not in force", "proof": [proof]}
    >>> cell = {"id": "0", "tenants": [{"rows": 1, "schedule_hash": "x"}], "requests": {"open": 1},
    ...         "outcome": "measured"}
    >>> wrong({"plan": {"foreign": {}}, "cells": [cell], "mechanisms": [row]}, ["hami", "mps"])
    ['hami: failed, not in force', 'hami: mapped: not into 7', 'mps has no row']
    """
    found = in_force(record, mechanisms)
    if "foreign" not in record["plan"]:
        found.append("the plan names no program")
    if not record["cells"]:
        found.append("no cell")
    for cell in record["cells"]:
        victim = cell["tenants"][0]
        told = f"{cell['id']}: {cell['outcome']}, {cell.get('reason')}"
        if cell["outcome"] == "failed":
            found.append(told)
        if not victim["rows"] or not cell["requests"]["open"]:
            found.append(f"no requests in {told}")
        if not victim.get("schedule_hash"):
            found.append(f"no schedule in {told}")
    return found


def in_force(record, mechanisms):
    """Which of these mechanisms was not, and why."""
    found = []
    for name in mechanisms:
        rows = [row for row in record["mechanisms"] if row["name"] == name]
        if not rows:
            found.append(f"{name} has no row")
        for row in rows:
            if row["outcome"] != "measured":
                found.append(f"{name}: {row['outcome']}, {row.get('reason')}")
            if not row["proof"]:
                found.append(f"{name} has no proof")
            failed = [proof for proof in row["proof"] if not proof["holds"]]
            found += [f"{name}: {proof['check']}: {proof['evidence']}" for proof in failed]
    return found


def main():
    """Prints what is wrong and the number of requests; the status says whether all is right."""
    with open(sys.argv[1], encoding="utf-8") as file:
        record = json.load(file)
    found = wrong(record, sys.argv[2:])
    for line in found:
        print(line)
    rows = sum(cell["tenants"][0]["rows"] for cell in record["cells"])
    print(f"{len(record['cells'])} cells, {rows} requests of a foreign program, {len(found)} wrong")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
