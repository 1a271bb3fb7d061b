"""Many nights of default records: `history` and `outliers` within their time and memory.

    python3 ci/check_history.py GPUBENCH FOLDER

FOLDER/base is a default record. The nights are copies of it with rates of their own: a step of 10 %
on night 200 in the retention under one mechanism, which the history must find. The fleet is 1,000
copies under UUIDs of their own, with one sick GPU, which outliers must name. Ends with status 1 if
a limit or a finding is missed.
"""

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time

NIGHTS = 365
STEP_AT = 200
STEP = 0.9
SICK = 17
HISTORY_S = 10.0
FLEET = 1000
OUTLIERS_S = 60.0
MEMORY_KIB = 2 << 20


def started_at(night):
    """The start of a night.

    >>> started_at(0), started_at(31), started_at(364)
    ('2026-01-01T02:00:00Z', '2026-02-01T02:00:00Z', '2026-12-31T02:00:00Z')
    """
    at = time.gmtime(1767232800 + 86400 * night)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", at)


def contended(cell, variant):
    """Whether the cell is a contended one under the variant."""
    return cell["condition"] == "C" and cell["variant"] == variant


def planted(record, rng, factor_of):
    """The cells of the record with rates scaled by noise of the night and `factor_of` each cell."""
    drift = {}
    cells = []
    for cell in record["cells"]:
        # One value of a night for each victim, variant and condition, as sessions have.
        key = (cell["victim"], cell["variant"], cell["condition"], cell.get("aggressor"))
        factor = drift.setdefault(key, rng.gauss(1.0, 0.005)) * factor_of(cell)
        rates = {name: value * factor if name == "closed_rate_per_s" else value
                 for name, value in cell["rates"].items()}
        cells.append({**cell, "rates": rates})
    return cells


def write(base, folder, record, cells, device, at):
    """A copy of the base record with these cells, whose scores are made again when it is read, as
    those of older rules are; other files are links."""
    os.makedirs(folder)
    for name in os.listdir(base):
        if name == "telemetry.parquet":
            os.link(os.path.join(base, name), os.path.join(folder, name))
    copy = {**record, "cells": cells, "scoring": "scoring-v2",
            "device": {**record["device"], **device},
            "provenance": {**record["provenance"], "started_at": at}}
    with open(os.path.join(folder, "record.json"), "w", encoding="utf-8") as file:
        json.dump(copy, file, separators=(",", ":"))


def timed(*command):
    """Runs a command; its output, status, seconds, and the largest memory of any command so far."""
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took = time.monotonic() - began
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return done.stdout, done.returncode, took, memory


def main(program, folder):
    base = os.path.join(folder, "base")
    with open(os.path.join(base, "record.json"), encoding="utf-8") as file:
        record = json.load(file)
    variants = sorted({cell["variant"] for cell in record["cells"] if cell["condition"] == "C"})
    variant = variants[0]
    rng = random.Random(1)
    problems = []

    def check(holds, what):
        print(("ok      " if holds else "FAILED  ") + what)
        if not holds:
            problems.append(what)

    nights = os.path.join(folder, "nights")
    for night in range(NIGHTS):
        stepped = lambda cell: STEP if night >= STEP_AT and contended(cell, variant) else 1.0
        cells = planted(record, rng, stepped)
        write(base, os.path.join(nights, f"n{night:03}"), record, cells, {}, started_at(night))
    out, status, cold, memory = timed(program, "history", nights, "--format", "json")
    check(status == 30, f"history of {NIGHTS} nights with a loss ends with 30 (status {status})")
    check(cold <= HISTORY_S, f"without an index {cold:.1f} s, at most {HISTORY_S:.0f}: "
          f"{NIGHTS / cold:.0f} nights a second")
    again, _, warm, memory = timed(program, "history", nights, "--format", "json")
    check(warm <= HISTORY_S, f"with the index {warm:.1f} s, at most {HISTORY_S:.0f}")
    check(again == out, "the index changes nothing that is printed")
    check(memory <= MEMORY_KIB, f"{memory >> 10} MiB, at most {MEMORY_KIB >> 10}")
    found = {(series["variant"], change["between"][1][-4:])
             for series in json.loads(out)["series"] if series["metric"] == "retention"
             for change in series["changes"]}
    near = [at for of, at in found if of == variant and abs(int(at[1:]) - STEP_AT) <= 1]
    check(bool(near), f"the step of {variant} on night {STEP_AT} is found")
    others = {of for of, _ in found} - {variant}
    check(not others, f"no change is found elsewhere: {sorted(others)}")
    shutil.rmtree(nights)

    fleet = os.path.join(folder, "fleet")
    for node in range(FLEET):
        slow = lambda cell: 0.96 if node == SICK and cell["condition"] == "N" else 1.0
        cells = planted(record, rng, slow)
        device = {"uuid": f"GPU-{node:04}"}
        write(base, os.path.join(fleet, f"g{node:04}"), record, cells, device, started_at(0))
    out, status, took, memory = timed(program, "outliers", fleet, "--format", "json")
    groups = json.loads(out)["groups"]
    named = {one["device"] for group in groups for one in group["outliers"]}
    check(status == 30 and named == {f"GPU-{SICK:04}"}, f"outliers names the sick GPU: {named}")
    check(took <= OUTLIERS_S, f"{FLEET} records in {took:.1f} s, at most {OUTLIERS_S:.0f}")
    check(memory <= MEMORY_KIB, f"{memory >> 10} MiB, at most {MEMORY_KIB >> 10}")
    shutil.rmtree(fleet)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
