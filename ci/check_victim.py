"""Checks a record with a user's program as the victim: python3 THIS RECORD CATALOGUE

CATALOGUE is the output of `gpubench list mechanisms --format json`. The checks hold on a busy
machine too: under each mechanism with process tenants the program started, received a schedule, and
reported requests that became samples, and the mechanism was in force. Mechanisms with tenants in
one process are waived with their reason.
"""
import json
import sys

# Mechanisms with tenants in one process; add new ones here.
WAIVED = ("green-context", "stream-priority")
REASON = "its tenants are threads of one process, and the victim is a program"

# One mechanism of each kind of proof, and what must be proved of it.
PROOFS = {
    "exclusive-process": ["a second process is refused with 46"],
    "mps-static": ["the program was started with the variables of its mechanism"],
    "mig-mps": ["every tenant is a client of our MPS daemon",
                "NVML lists each tenant in the instance that it was handed"],
    "hami": ["the library is mapped into every tenant"],
}


def wrong(record, mechanisms=()):
    """The problems of a record.

    >>> wrong({"plan": {}, "cells": []})
    ['the plan names no program', 'no cell']
    >>> proof = {"check": "mapped", "holds": False, "evidence": "not into 7"}
    >>> row = {"name": "hami", "outcome": "failed", "reason": "not in force", "proof": [proof]}
    >>> cell = {"id": "0", "requests": {"open": 1},
    ...         "tenant_results": [{"rows": 1, "schedule_hash": "x"}],
    ...         "outcome": "measured", "mechanism": "hami"}
    >>> wrong({"plan": {"user_victim": {}}, "cells": [cell], "mechanisms": [row]}, ["hami", "mps"])
    ['hami: failed, not in force', 'hami: mapped: not into 7', 'hami: no proof that the library is \
mapped into every tenant', 'mps has no row', 'mps has no cell']
    """
    found = []
    for name in mechanisms:
        found += waived(record, name) if name in WAIVED else in_force(record, name)
    if "user_victim" not in record["plan"]:
        found.append("the plan names no program")
    if not record["cells"]:
        found.append("no cell")
    for cell in record["cells"]:
        victim = cell["tenant_results"][0]
        summary = f"{cell['id']}: {cell['outcome']}, {cell.get('reason')}"
        if cell["outcome"] == "failed":
            found.append(summary)
        if not victim["rows"] or not cell["requests"]["open"]:
            found.append(f"no requests in {summary}")
        if not victim.get("schedule_hash"):
            found.append(f"no schedule in {summary}")
    return found


def in_force(record, name):
    """The problems of a mechanism that must be in force."""
    rows = [row for row in record["mechanisms"] if row["name"] == name]
    found = [] if rows else [f"{name} has no row"]
    if not any(cell["mechanism"] == name for cell in record["cells"]):
        found.append(f"{name} has no cell")
    for row in rows:
        if row["outcome"] != "measured":
            found.append(f"{name}: {row['outcome']}, {row.get('reason')}")
        proofs = row.get("proof", [])
        if not proofs:
            found.append(f"{name} has no proof")
        failed = [proof for proof in proofs if not proof["holds"]]
        found += [f"{name}: {proof['check']}: {proof['evidence']}" for proof in failed]
        checks = [proof["check"] for proof in proofs]
        missing = [check for check in PROOFS.get(name, []) if check not in checks]
        found += [f"{name}: no proof that {check}" for check in missing]
    return found


def waived(record, name):
    """The problems of a mechanism that must be waived with its reason.

    >>> row = {"name": "green-context", "outcome": "waived", "reason": REASON}
    >>> waived({"mechanisms": [row], "cells": []}, "green-context")
    []
    >>> waived({"mechanisms": [dict(row, reason=None)], "cells": []}, "green-context")
    ['green-context: waived, None']
    >>> waived({"mechanisms": [], "cells": [{"mechanism": "green-context"}]}, "green-context")
    ['green-context has no row', 'green-context has cells']
    """
    rows = [row for row in record["mechanisms"] if row["name"] == name]
    found = [] if rows else [f"{name} has no row"]
    if any(cell["mechanism"] == name for cell in record["cells"]):
        found.append(f"{name} has cells")
    for row in rows:
        if row["outcome"] != "waived" or row.get("reason") != REASON:
            found.append(f"{name}: {row['outcome']}, {row.get('reason')}")
    return found


def main():
    """Prints the problems and the number of requests; exits with 1 if there is a problem."""
    with open(sys.argv[1], encoding="utf-8") as file:
        record = json.load(file)
    with open(sys.argv[2], encoding="utf-8") as file:
        mechanisms = [entry["name"] for entry in json.load(file)["rows"]]
    found = wrong(record, mechanisms)
    for line in found:
        print(line)
    rows = sum(cell["tenant_results"][0]["rows"] for cell in record["cells"])
    total = f"{len(record['cells'])} cells, {rows} requests of a user's program"
    print(f"{total}, {len(mechanisms)} mechanisms, {len(found)} wrong")
    sys.exit(1 if found or not mechanisms else 0)


if __name__ == "__main__":
    main()
