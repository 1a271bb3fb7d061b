"""How often `gpubench diff` finds what a machine file plants, over whole runs on the virtual GPU:
`check_diff.py GPUBENCH FOLDER [GROUPS]`.

A cell is a mechanism and an axis, whose row loses 5, 10, 20 and 2 %. GROUPS (30) times five
sessions with the loss are compared with five without: 5 + 5, and in the first two thirds of the
groups the first three of each, 3 + 3. Seeds are 1, 2, 3... in order. Each session draws the
retention around that of its side, with a standard deviation of 0.2 %. Every group is compared again
with one odd session: its device has noise by which its repeated cells differ from themselves. Then
one session is compared with a history of ten, and random threes without a loss with each other.
Prints the tables and fails where a share is outside its limit.

A finished session stays in FOLDER, so an interrupted campaign goes on where it was.
"""

import json
import math
import pathlib
import random
import shutil
import statistics
import subprocess
import sys

MECHANISMS = ["time-slicing", "mps", "mps-quota", "mig"]
# Each axis with its planted defect.
AXES = {
    "compute/sm": "neighbour_slows_compute",
    "bandwidth/dram": "neighbour_slows_dram",
    "bandwidth/l2": "neighbour_slows_l2",
    "bandwidth/pcie": "neighbour_slows_copies",
}
CELLS = [(mechanism, axis) for mechanism in MECHANISMS for axis in AXES]
# What every session loses, so that one can also lose less: more than an instance leaves unused.
COMMON = 0.3
SPREAD = 0.002
LIMITS = {3: 0.95, 5: 0.98}
CELL_MIN = 0.80
HISTORY = 10
PROFILE = """
version = 1
summary = "six short blocks of closed loops"
decides = false
axes = ["{axis}"]
mechanisms = ["{mechanism}"]
device_time = "60s"
service = "100us"
open_loops = "jitter"
soak = {{ limit = "0s", keep_warm = "0s", check = "0s" }}
blocks = {{ min = 6, max = 6, top_up = false }}
cell = {{ warmup = "2ms", closed = "20ms", gap = "2ms", open = "20ms" }}
cell_min = {{ warmup = "2ms", closed = "20ms", gap = "2ms", open = "20ms" }}
"""
# Slices that no request exceeds, so that its time decides how often it has its turn, and of which a
# short loop has many; and an L2 that needs no large buffers to be exceeded.
CHANGES = {
    "slice_us = 2000\nswitch_gap_us = 40": "slice_us = 400\nswitch_gap_us = 8",
    "l2_kib = 51200": "l2_kib = 4096",
}
# An epoch of the odd device is about a cell: the mean of eight blocks of a repeated cell over the
# first one has a standard deviation of half of this noise.
EPOCH = "epoch = 0.003\nepoch_ms = 500"
ODD = "epoch = 0.024\nepoch_ms = 40"


def share(laws, retention):
    """The share that a kernel must lose for this retention, by two others with their retentions.

    A request takes its own time, which the loss divides, and that of turns and of the host.

    >>> law = [(0.0, 0.5), (0.5, 0.4)]
    >>> [round(share(law, retention), 6) for retention in (0.5, 0.4, 0.45)]
    [0.0, 0.5, 0.307692]
    """
    (x0, r0), (x1, r1) = laws
    slope = (1 / r1 - 1 / r0) / (1 / (1 - x1) - 1 / (1 - x0))
    return 1 - 1 / (1 / (1 - x0) + (1 / retention - 1 / r0) / slope)


class Campaign:
    """The sessions in a folder."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        machines = pathlib.Path(__file__).parent / "../profiles/machines"
        self.machine = (machines / "hopper.toml").read_text()
        for old, new in CHANGES.items():
            self.machine = self.machine.replace(old, new)
        self.laws = {}

    def run(self, name, cell, lost, epoch, seed):
        """Measures a session of a cell that loses this share, unless it is there."""
        (mechanism, axis), home = cell, self.folder / "/".join(cell)
        out, profile, machine = home / name, home / "profile.toml", home / "machine.toml"
        if (out / "record.json").exists():
            return out
        out.parent.mkdir(parents=True, exist_ok=True)
        profile.write_text(PROFILE.format(axis=axis, mechanism=mechanism))
        text = self.machine.replace(EPOCH, epoch)
        machine.write_text(f"{text}\n[defects]\n{AXES[axis]} = {lost:.9f}\n")
        calibration = [] if name == "law/0" else ["--calibration", home / "law/0"]
        command = [self.program, "matrix", "--allow-reconfigure", "--device", f"virtual:{machine}"]
        command += ["--profile", profile, "--out", out, "--seed", str(seed), *calibration]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{out} ended with {done.returncode}: {done.stderr}")
        for other in out.iterdir():
            if other.name not in ("record.json", "telemetry.parquet"):
                shutil.rmtree(other) if other.is_dir() else other.unlink()
        return out

    def retention(self, out, cell):
        """The retention that the report of a session prints."""
        for row in json.loads((out / "record.json").read_text())["matrix"]:
            if (row["mechanism"], f"{row['axis']}/{row.get('sub_axis')}") == cell:
                return row["retention"]["value"]
        sys.exit(f"{out} has no retention")

    def session(self, side, cell, number, loss=0.0, epoch=EPOCH):
        """A session of a side. Draws depend on the cell, the side and the number alone."""
        if cell not in self.laws:
            runs = enumerate((COMMON, 0.6))
            both = [(lost, self.run(f"law/{at}", cell, lost, EPOCH, 1)) for at, lost in runs]
            self.laws[cell] = [(lost, self.retention(out, cell)) for lost, out in both]
        drawn = random.Random(f"{cell} {side} {number}").gauss(0, SPREAD)
        retention = self.laws[cell][0][1] * (1 - loss) * math.exp(drawn)
        name = f"{side}/{number}{' odd' if epoch is ODD else ''}"
        return self.run(name, cell, share(self.laws[cell], retention), epoch, number)

    def compare(self, *arguments):
        command = [self.program, "diff", "--format", "json", "--full", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 10, 30):
            sys.exit(f"{arguments} ended with {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)


def verdicts(report):
    """Whether the retention beside a neighbour regressed, how many other rows changed, its change.

    Rows of which it is a part change with it.
    """
    found = others = change = 0
    for row in report["rows"]:
        if row["metric"] == "retention" and row["variant"] != "exclusive":
            found, change = row["verdict"] == "regressed", row["figures"]["change"]
        elif row["metric"] not in ("guarantee", "contended-rate"):
            others += row["verdict"] in ("regressed", "improved")
    return found, others, change


def compared(campaign, cell, loss, size, group, odd):
    """What a comparison finds in this cell."""
    numbers = range(5 * group + 1, 5 * group + 1 + size)
    before = [campaign.session("base", cell, number) for number in numbers]
    after = [campaign.session(str(loss), cell, number, loss) for number in numbers]
    if odd:
        # The first session of either side in turn, whatever the size.
        if group % 2 == 0:
            before[0] = campaign.session("base", cell, numbers[0], epoch=ODD)
        else:
            after[0] = campaign.session(str(loss), cell, numbers[0], loss, ODD)
    return verdicts(campaign.compare(*before, "--to", *after))


def planted(campaign, loss, groups):
    """Prints a line for each size, without and with an odd session; yields those out of limits."""
    for size, limit in LIMITS.items():
        for odd in (False, True):
            found, others, changes = {}, 0, []
            count = range(groups if size == 5 else -(-2 * groups // 3))
            for cell in CELLS:
                each = [compared(campaign, cell, loss, size, group, odd) for group in count]
                found[cell] = statistics.mean(one[0] for one in each)
                others += sum(one[1] for one in each)
                changes += [one[2] for one in each]
            total, worst = statistics.mean(found.values()), min(found.values())
            line = (
                f"-{loss:.0%}, {size} + {size}{', one odd' if odd else ''}: {total:.1%} of "
                f"{len(CELLS) * len(count)}, worst cell {worst:.0%}; {others} other rows; "
                f"changes from {min(changes):+.1%} to {max(changes):+.1%}"
            )
            print(line, flush=True)
            is_held = total == 0 if loss < 0.03 else total >= limit and worst >= CELL_MIN
            if not is_held or others:
                yield line


def identical(campaign, groups):
    """Random threes of the sessions without a loss against each other."""
    comparisons = rows = false_rows = false = equal = 0
    for cell in CELLS:
        for seed in range(1, 63 + 1):
            drawn = random.Random(seed).sample(range(1, 5 * groups + 1), 6)
            sides = [campaign.session("base", cell, number) for number in drawn]
            counts = campaign.compare(*sides[:3], "--to", *sides[3:])["counts"]
            changes = counts["regressed"] + counts["improved"]
            comparisons, false = comparisons + 1, false + (changes > 0)
            equal, false_rows = equal + counts["unchanged"], false_rows + changes
            rows += sum(counts[verdict] for verdict in ("unchanged", "inconclusive")) + changes
    line = f"identical: {false_rows} of {rows} rows, {false} of {comparisons}; {equal} equal"
    print(line, flush=True)
    if false_rows > 0.01 * rows or false > 0.05 * comparisons or equal < 0.9 * rows:
        yield line


def against_history(campaign):
    """One session with the loss of 5 % against ten without."""
    found = others = 0
    for number in range(60):
        cell = CELLS[number % len(CELLS)]
        nights = campaign.folder / "/".join(cell) / "nights"
        nights.mkdir(exist_ok=True)
        for night in range(1, HISTORY + 1):
            source = campaign.session("base", cell, night)
            if not (nights / str(night)).exists():
                (nights / str(night)).symlink_to(source)
        after = campaign.session("0.05", cell, number // len(CELLS) + 1, 0.05)
        one, more, _ = verdicts(campaign.compare("--against-history", nights, after))
        found, others = found + one, others + more
    line = f"-5%, 1 against {HISTORY}: {found} of 60; {others} other rows"
    print(line, flush=True)
    if found < 57 or others:
        yield line


def main(program, folder, groups=30):
    """Prints everything; what is outside its limit comes last."""
    campaign = Campaign(program, pathlib.Path(folder).absolute())
    for cell in CELLS:
        sessions = [campaign.session("base", cell, n) for n in range(1, 5 * groups + 1)]
        logs = [math.log(campaign.retention(out, cell)) for out in sessions]
        spread = f"{math.exp(statistics.mean(logs)):.4f}, spread {statistics.stdev(logs):.2%}"
        print(f"{' '.join(cell)}: retention {spread} between {len(logs)} sessions", flush=True)
    failed = [*planted(campaign, 0.05, groups), *against_history(campaign)]
    failed += identical(campaign, groups)
    failed += [one for loss in (0.10, 0.20, 0.02) for one in planted(campaign, loss, groups)]
    for one in failed:
        print(f"failed: {one}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3], *map(int, sys.argv[3:])))
