"""Holds a record whose victim was a foreign program against what it must say: python3 THIS RECORD.

Only what holds on a busy machine is asked for: that the program was started under each mechanism,
was told when to work, and that its requests became samples of the cells.
"""
import json
import sys


def wrong(record):
    """What is not as it must be.

    >>> wrong({"plan": {}, "cells": []})
    ['the plan names no program', 'no cell']
    """
    found = []
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


def main():
    """Prints what is wrong and the number of requests; the status says whether all is right."""
    with open(sys.argv[1], encoding="utf-8") as file:
        record = json.load(file)
    found = wrong(record)
    for line in found:
        print(line)
    rows = sum(cell["tenants"][0]["rows"] for cell in record["cells"])
    print(f"{len(record['cells'])} cells, {rows} requests of a foreign program, {len(found)} wrong")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
