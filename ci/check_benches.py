"""Holds the benches of records to their baseline: `check_benches.py CRITERION BASELINE [--write]`.

CRITERION is the folder that `cargo bench` fills, BASELINE a file of lines `bench ratio`. A ratio is
the time of a bench over that of the bench `parse` in the same run, so that machines of other speeds
agree. A ratio beyond `SLACK` times its baseline, a bench without one and a line without a bench
end with 1. `--write` makes the baseline.
"""

import json
import sys
from pathlib import Path

REFERENCE = "parse"
# Ratios of ten runs on two noisy cores differ by less.
SLACK = 1.5


def ratios(times):
    """
    >>> ratios({"parse": 4.0, "score": 10.0})
    {'score': 2.5}
    """
    return {name: time / times[REFERENCE] for name, time in times.items() if name != REFERENCE}


def problems(found, known):
    """
    >>> problems({"score": 2.0, "diff": 1.0}, {"score": 1.9, "diff": 0.5, "gate": 1.0})
    ['diff: 1.00 times a parse, 0.50 before', 'gate: not measured']
    >>> problems({"score": 2.0}, {})
    ['score: no baseline']
    """
    slow = [
        f"{name}: {ratio:.2f} times a parse, {known[name]:.2f} before"
        for name, ratio in found.items()
        if name in known and ratio > SLACK * known[name]
    ]
    new = [f"{name}: no baseline" for name in found if name not in known]
    return slow + new + [f"{name}: not measured" for name in known if name not in found]


def median_ns(path):
    return json.loads(path.read_text())["median"]["point_estimate"]


def main(criterion, baseline, *options):
    files = sorted(Path(criterion).glob("*/new/estimates.json"))
    titles = [json.loads((file.parent / "benchmark.json").read_text())["title"] for file in files]
    times = dict(zip(titles, map(median_ns, files), strict=True))
    if REFERENCE not in times:
        return f"{criterion} has no bench {REFERENCE}"
    found = ratios(times)
    if "--write" in options:
        Path(baseline).write_text("".join(f"{n}\t{r:.3f}\n" for n, r in found.items()))
        return None
    lines = Path(baseline).read_text().splitlines()
    known = {name: float(ratio) for name, ratio in (line.split("\t") for line in lines)}
    for name, ratio in found.items():
        print(f"{name:12} {ratio:8.2f} times a parse ({known.get(name, 0.0):.2f} before)")
    return "\n".join(problems(found, known)) or None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
