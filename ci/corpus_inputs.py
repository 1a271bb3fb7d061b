"""Inputs of the command lines of `ci/corpus.py`, and what is replaced in their outputs.

Records are those of `reports/examples` and `reports/golden`, and copies of the H100 matrix with
facts and rates of their own: nights, a fleet, other devices, damaged records. Runs on the virtual
GPU are made by lines of `ci/corpus/commands.txt`, and `keep_run` makes inputs of them. All names
are relative, and nothing depends on the host or the time.
"""

import json
import os
import pathlib
import re
import shutil
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPUS = ROOT / "ci" / "corpus"
SIGNING = ROOT / "harness" / "tests" / "it" / "data" / "signing"

EXAMPLES = ("matrix", "faults-mps", "faults-time-slicing", "probes")
VERSIONS = ("1.0", "2.3")

# Runs that lines of commands.txt make. Each has the inputs NAME, NAME-killed, NAME-forged and
# NAME-damaged.
RUNS = ("smoke", "doses")

# A change of a record.
Change = Callable[[dict[str, Any]], None]

RATE = "closed_rate_per_s"
LATER = "2026-03-01T02:00:00Z"

# What differs between hosts and runs, by verb: patterns and what replaces them. Replacements of
# `matrix` keep a record readable. No other verb prints such a fact of these inputs.
RULES: dict[str, list[tuple[bytes, bytes]]] = {
    "every verb": [
        # A file before it gets its name, in an error.
        (rb"/\.gpubench-\w{6}\b", b"/TEMPORARY"),
    ],
    "matrix": [
        # Times, host and boot in records and events.
        (rb'("started_at": ?)"[^"]*"', rb'\1"2026-01-01T00:00:00Z"'),
        (rb'("(?:ended_at|at)": ?)"20[^"]*Z"', rb'\1"2026-01-01T00:00:07Z"'),
        (rb'("boot_id": ?)"[^"]*"', rb'\1"0"'),
        (rb'("host": ?)\{[^{}]*\}', rb'\1{"cores":"8","cpu":"a CPU","hostname":"host",'
                                    rb'"kernel":"6.1","kernel_log":"read","observed":""}'),
        # Process ids in events and in the evidence of proofs.
        (rb'("pid": ?)\d+', rb"\g<1>1"),
        (rb"((?:NVML lists|no process but the victim|MPS clients|lists all of|tenants are in"
         rb"|services are|MPS server) )\[[\d, ]+\]", rb"\1[1]"),
        (rb"\b\d+( handed \d)", rb"1\1"),
        # On a busy host the coordinator may see the connection of a stopped tenant close later.
        (rb'"stopped by the coordinator, (exit status 0")', rb'"\1'),
        # The folder of the virtual GPU, and the hash of a library that is built with the binary.
        (rb'[^\s"\[]*/virtual-gpu-\w{6}/', b""),
        (rb"BLAKE3 [0-9a-f]{64}", b"BLAKE3 0"),
        # Duration and date in the head of the screen, which they wrap, and the time left.
        (rb"(?m)^Virtual [^|]*\| driver [^=]*?\d{4}-\d\d-\d\d$", b"HEAD"),
        # Lines of progress, as many as there is time for, and the time left.
        (rb"(?m)^(?:block \d+ of \d+|calibrating|fault trials?): .*\n", b""),
        (rb"ETA \S+", b"ETA TIME"),
        # The first columns of a CSV: run, GPU, host and date.
        (rb"(?m)^[0-9a-f]{32},(GPU-[0-9a-f-]+),[^,]*,[^,]*,", rb"RUN,\1,HOST,DATE,"),
    ],
    "history": [
        # The time of `history pin`, in its file and in the list of baselines.
        (rb'("at": )"20[^"]*Z"(,\s+"records")', rb'\1"TIME"\2'),
        (rb"(?m)^(\w+  )20[^ ]*Z(  n)", rb"\1TIME\2"),
    ],
    "doctor": [
        # The user, and the table and lines about the lateness of timers on this host.
        (rb"(?m)^user: .*$", b"user: USER"),
        # As a table, or as a list of its rows where it is too wide.
        (rb"(?ms)^ ?(?:\x1b\[[0-9;]*m)*(?:lateness|class (?:fifo|other)).*?\n\n", b"TIMERS\n\n"),
        (rb'(?m)^  "root": \w+,$', b'  "root": ROOT,'),
        (rb'(?ms)^  "timer_lateness_at_1_khz": \[.*?^  \]', b'  "timer_lateness_at_1_khz": TIMERS'),
    ],
}


def normalised(verbs: set[str], output: bytes) -> bytes:
    """The output without the facts of this host and of this moment that verbs print.

    >>> normalised({"matrix"}, b'{"event":"tenant-started","tenant":"victim","pid":12483}')
    b'{"event":"tenant-started","tenant":"victim","pid":1}'
    >>> normalised({"matrix"}, b'"host":{"cores":"2","hostname":"vm"},"clock":"virtual"')[-40:]
    b':"read","observed":""},"clock":"virtual"'
    >>> normalised({"doctor"}, b"user: not root: device settings cannot be changed")
    b'user: USER'
    >>> normalised({"report"}, b"user: root")
    b'user: root'
    """
    for verb in ["every verb", *sorted(verbs)]:
        for pattern, replacement in RULES.get(verb, []):
            output = re.sub(pattern, replacement, output)
    return output


def run_of(name: str) -> str | None:
    """The run of which an input is made.

    >>> run_of("smoke"), run_of("doses-killed"), run_of("real-1.0")
    ('smoke', 'doses', None)
    """
    return name.split("-")[0] if name.split("-")[0] in RUNS else None


def provide(source: pathlib.Path, target: pathlib.Path) -> None:
    """Links a file, or every file of a folder. The program replaces files and writes into none."""
    if source.is_dir():
        shutil.copytree(source, target, copy_function=os.link)
    else:
        os.link(source, target)


def write(folder: pathlib.Path, record: dict[str, Any]) -> None:
    """Writes a record into a new folder."""
    folder.mkdir(parents=True)
    text = json.dumps(record, separators=(",", ":"))
    (folder / "record.json").write_text(text, encoding="utf-8")


def scale(record: dict[str, Any], condition: str, factor: float) -> None:
    """Scales the closed-loop rates of all cells of a condition."""
    for cell in record["cells"]:
        if cell["condition"] == condition and RATE in cell["rates"]:
            cell["rates"][RATE] *= factor


def repeat_exactly(record: dict[str, Any]) -> None:
    """Gives repeated solo cells the rates of the first ones: copies of one difference would be a
    bias of the whole series."""
    def key(cell: dict[str, Any]) -> tuple[Any, ...]:
        return cell["block"], cell["variant"], cell["victim"], cell["sub_axis"]

    solo = {key(cell): cell["rates"].get(RATE) for cell in record["cells"]
            if cell["condition"] == "S"}
    for cell in record["cells"]:
        if cell["condition"] == "S'" and solo.get(key(cell)) is not None:
            cell["rates"][RATE] = solo[key(cell)]


def starve(record: dict[str, Any], more: int) -> None:
    """Changes the completions of the first starved window that has one. The rate of n completions
    is that of n + 1 in the window, the most that it can have been.

    >>> gate = {"gate": "closed-rate", "state": "not-evaluated", "detail": "starved: 1 requests"}
    >>> cell = {"condition": "C", "requests": {"closed": 1}, "rates": {RATE: 10.0}, "gates": [gate]}
    >>> starve({"cells": [cell]}, 1)
    >>> cell["requests"], cell["rates"], gate["detail"]
    ({'closed': 2}, {'closed_rate_per_s': 15.0}, 'starved: 2 requests')
    """
    for cell in record["cells"]:
        for gate in cell["gates"]:
            count = cell["requests"].get("closed", 0)
            starved = (gate["gate"], gate["state"]) == ("closed-rate", "not-evaluated")
            if starved and cell["condition"] == "C" and count == 1:
                cell["requests"]["closed"] = count + more
                cell["rates"][RATE] *= (count + more + 1) / (count + 1)
                gate["detail"] = gate["detail"].replace(f": {count} ", f": {count + more} ")
                return


def copies(stage: pathlib.Path, h100: str) -> None:
    """Copies of the H100 matrix with changes."""
    def copy(name: str, at: str, /, *changes: Change, **device: str) -> None:
        record = json.loads(h100)
        record["provenance"]["started_at"] = at
        record["device"] |= device
        repeat_exactly(record)
        for change in changes:
            change(record)
        write(stage / name, record)

    def label(**labels: str) -> Change:
        return lambda record: record["provenance"].update(labels=labels)

    def contended(factor: float) -> Change:
        return lambda record: scale(record, "C", factor)

    def native(factor: float) -> Change:
        return lambda record: scale(record, "N", factor)

    for night in range(1, 21):
        at, quiet = f"2026-01-{night:02}T02:00:00Z", 1 + 0.001 * (night % 3)
        if night <= 12:
            pool = label(pool="even" if night % 2 == 0 else "odd")
            copy(f"nights/n{night:02}", at, contended(quiet), pool)
        # From the eleventh night on every mechanism isolates a fifth less.
        copy(f"step/n{night:02}", at, contended(quiet * (1 if night < 11 else 0.8)))
    for name, factor in (("base", 1), ("equal", 1.001), ("worse", 0.8), ("better", 1.2)):
        copy(name, LATER, contended(factor))
    copy("newer", LATER, driver="590.10")
    copy("a100", LATER, name="NVIDIA A100-SXM4-80GB", uuid="GPU-a100", pci_id="20b210de:146310de")
    copy("starved-more", LATER, lambda record: starve(record, 1))
    copy("starved-less", LATER, lambda record: starve(record, -1))
    for name, major, minor in (("future", 9, 0), ("unpublished", 2, 1)):
        version = {"major": major, "minor": minor}
        copy(name, LATER, lambda record, version=version: record.update(format_version=version))
    for node in range(8):
        copy(f"fleet/g{node}", LATER, native(0.96 if node == 5 else 1 + 0.0001 * node),
             label(node=f"node{node}"), uuid=f"GPU-{node}")


def prepare(stage: pathlib.Path) -> None:
    """Makes every input but those of runs."""
    examples = ROOT / "reports" / "examples"
    for name in EXAMPLES:
        source = examples / f"h100_580.159.04_{name}"
        for target in ("h100" if name == "matrix" else name, f"examples/{source.name}"):
            shutil.copytree(source, stage / target)
    for kind in ("real", "virtual"):
        for version in VERSIONS:
            source = ROOT / "reports" / "golden" / f"{kind}.format-{version}.json"
            for target in (f"{kind}-{version}", f"golden/{kind}-{version}"):
                (stage / target).mkdir(parents=True)
                shutil.copyfile(source, stage / target / "record.json")
    for file in [*(CORPUS / "inputs").iterdir(), *SIGNING.iterdir(), examples / "fidelity.toml"]:
        shutil.copyfile(file, stage / file.name)
        (stage / file.name).chmod(0o600)
    h100 = (stage / "h100" / "record.json").read_text(encoding="utf-8")
    copies(stage, h100)
    (stage / "empty").mkdir()
    (stage / "torn").mkdir()
    (stage / "torn" / "record.json").write_text(h100[:len(h100) // 2], encoding="utf-8")


def keep_run(run: pathlib.Path, stage: pathlib.Path) -> None:
    """Makes inputs of a run: its record with fixed facts and therefore without checksums, what a
    kill would have left of it, a better level than follows from its cells, and a changed byte."""
    record = normalised({"matrix"}, (run / "record.json").read_bytes())
    for name in (run.name, f"{run.name}-forged"):
        (stage / name).mkdir()
        for file in ("samples.parquet", "latencies.hlog", "telemetry.parquet"):
            shutil.copyfile(run / file, stage / name / file)
        (stage / name / "record.json").write_bytes(record)
    forged = json.loads(record)
    row = next(row for row in forged["matrix"] if row.get("level") == "L0")
    row["level"] = "L3"
    text = json.dumps(forged, indent=2)
    (stage / f"{run.name}-forged" / "record.json").write_text(text, encoding="utf-8")
    events = normalised({"matrix"}, (run / "events.jsonl").read_bytes()).splitlines(keepends=True)
    (stage / f"{run.name}-killed").mkdir()
    killed = b"".join(events[:len(events) * 2 // 3])
    shutil.copyfile(run / "samples.parquet", stage / f"{run.name}-killed" / "samples.parquet")
    (stage / f"{run.name}-killed" / "events.jsonl").write_bytes(killed)
    shutil.copytree(run, stage / f"{run.name}-damaged")
    damaged = stage / f"{run.name}-damaged" / "latencies.hlog"
    text = damaged.read_text(encoding="utf-8")
    damaged.write_text(text.replace("Tag=0000", "Tag=0009", 1), encoding="utf-8")
