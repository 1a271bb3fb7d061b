#!/usr/bin/env python3
"""Checks the outcomes of `gpubench choose` by a walk of its own over the JSON of records.

    check_choose.py GPUBENCH [--sets N] [--seed N] [--page] RECORD...

For random sets of needs on each record, alone, the outcome of every mechanism must be the same; no
answer names a mechanism that fails, or one with an unknown need. With --page the table of the page
is filtered in headless Chromium by random thresholds, and compared with the verb.

>>> bounds_of({"value": None, "hi": 0.02})
(-inf, 0.02)
>>> bounds_of({"value": 1.0, "range": [0.0, 2.0]})
(-inf, inf)
>>> judge(0.8, 0.9, ">=", 0.8), judge(0.7, 0.9, ">=", 0.8), judge(0.6, 0.7, ">=", 0.8)
('meets', 'unknown', 'fails')
>>> judge(0.1, 0.3, "<=", 0.2), judge(0.3, 0.4, "<=", 0.2)
('unknown', 'fails')
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

INF = float("inf")
PARTS = {"compute": ["sm"], "bandwidth": ["dram", "l2", "pcie"],
         "memory": ["capacity", "cap", "residue", "visibility"]}
# The sub-axes whose pairs have rates.
AXIS_OF = {"sm": "compute", "issue": "compute", "launch": "compute", "driver": "compute",
           "dram": "bandwidth", "l2": "bandwidth", "pcie": "bandwidth"}
AXIS = {part: axis for axis, parts in PARTS.items() for part in parts}
UNITS = {"KiB": 10, "MiB": 20, "GiB": 30}


def bounds_of(figure):
    """What a figure leaves open; a range of values bounds nothing."""
    if figure["value"] is None:
        return -INF, figure["hi"]
    if "at_least" in figure:
        return figure["at_least"], INF
    return (figure["lo"], figure["hi"]) if "lo" in figure else (-INF, INF)


def judge(low, high, sign, wanted):
    if sign == "<=":
        low, high, wanted = -high, -low, -wanted
    return "meets" if low >= wanted else "fails" if high < wanted else "unknown"


def all_of(outcomes):
    return min(outcomes, key=["fails", "unknown", "meets"].index)


def level_of(row):
    digits = [int(c) for c in row["level"] if c.isdigit()]
    worst, best = digits[0], digits[-1]
    # One success in a trial keeps L0 out and shows no L1.
    is_shown = row["outcome"] == "measured" or not row.get("survival") or worst >= 2
    return (worst if is_shown else 0), best


def of_rows(run, variant, name, sign, value):
    first, _, rest = name.partition("/")
    if first == "tail":
        tails = [row for row in run["matrix"] if row["variant"] == variant
                 and row["axis"] == "jitter" and row.get("tail_at_load")]
        return all_of([judge(*bounds_of(row["tail_at_load"]), sign, value)
                       if run["plan"]["decides"] else "unknown" for row in tails] or ["unknown"])
    figure = first if first in ("efficiency", "guarantee") else None
    name = rest if figure else name
    axis, _, part = name.partition("/")
    if axis in AXIS:
        axis, part = AXIS[axis], axis
    rows = [row for row in run["matrix"] if row["variant"] == variant
            and row["outcome"] != "waived"
            and (row["axis"] in ("compute", "bandwidth", "power") if not axis
                 else axis == row["axis"])
            and part in ("", row.get("sub_axis"), row.get("aggressor"))]
    outcomes = ["unknown" for one in PARTS.get(axis, []) if not part
                and one not in [row.get("sub_axis") for row in rows]]
    if axis == "jitter" and not part and missing_jitter(run, rows):
        outcomes.append("unknown")
    for row in rows:
        if not run["plan"]["decides"] or row["level"] is None:
            outcomes.append("unknown")
            continue
        if isinstance(value, str):
            outcomes.append(judge(*level_of(row), sign, int(value[1])))
            continue
        key = figure or ("jitter" if axis == "jitter" else
                         "retention" if row.get("retention") else "survival")
        found = row.get(key)
        outcomes.append(judge(*bounds_of(found), sign, value) if found else "unknown")
    return all_of(outcomes or ["unknown"])


def missing_jitter(run, rows):
    """The planned aggressors of rates beside which there is no row of jitter."""
    facts, beside = run["plan"].get("workloads", {}), {row.get("aggressor") for row in rows}
    return [pair["aggressor"] for pair in run["plan"].get("pairs", [])
            if AXIS_OF.get(pair["sub_axis"]) and pair["aggressor"] not in beside
            and not facts.get(pair["victim"], {}).get("answering_codes")]


def instances(variant):
    """Those of a MIG layout: mig[3g+1g.10gb+me] has two."""
    parts = variant[4:-1].split("+") if variant.startswith("mig[") else []
    return sum(part.split("g")[0].isdigit() for part in parts)


def steps(run, planned):
    changes, properties = planned["host_changes"], planned.get("properties", {})
    name = planned["name"]
    has = lambda text: any(change.startswith(text) for change in changes)
    is_thread = properties.get("tenants", "threads" if name in (
        "green-context", "stream-priority") else "processes") == "threads"
    found = set()
    if is_thread or "an MPS daemon of its own, in a private folder" in changes or name == "hami":
        found.add("restart")
    if has("MIG ") or has("compute mode") or has("time slice") or has("a control group"):
        found.add("root")
    if has("MIG "):
        found |= {"restart", "drain"}
    if has("MIG mode") and run["device"]["compute_capability"].startswith("8."):
        found.add("reset")
    return found, is_thread


def memory(run, variant, wanted):
    count = run["plan"]["tenants"]
    for probe in run.get("probes", []):
        if probe["variant"] == variant and probe["probe"] == "cap":
            own = next(c["bytes"][0] for c in probe["calls"] if c["call"] == "cuMemAlloc")
            if (probe["limit_bytes"] or 0) > probe["device_bytes"] // count:
                own = probe["device_bytes"] // count - probe["in_use_bytes"]
            elif probe["limit_bytes"] is None:
                shared = (probe["device_bytes"] - own) // count
                own = probe["device_bytes"] // count - shared
            return judge(own, own, ">=", wanted)
    return judge(-INF, (run["device"]["memory_mib"] << 20) // count, ">=", wanted)


def ends_all(run, name):
    """Whether faults of this part end a process, and with it all tenants that are its threads."""
    axis, _, part = name.partition("/")
    fatal = ("process", "sm", "mmu")
    classes = {row.get("aggressor"): row.get("sub_axis") for row in run["matrix"]
               if row["axis"] == "fault"}
    return axis == "fault" and (not part or part in fatal or classes.get(part) in fatal)


def outcome(run, variant, need):
    planned = next((p for p in run["plan"]["mechanisms"] if p["variant"] == variant), None)
    row = next(m for m in run["mechanisms"] if m["variant"] == variant)
    if need == "memory-cap":
        return of_rows(run, variant, "memory/cap", ">=", "L2")
    if need == "processes" or need.startswith("no-"):
        if planned is None:
            return "unknown"
        found, is_thread = steps(run, planned)
        bad = is_thread if need == "processes" else need[3:] in found
        return "fails" if bad else "meets"
    sign = ">=" if ">=" in need else "<="
    name, value = need.split(sign)
    if planned and steps(run, planned)[1] and ends_all(run, name):
        return "fails"
    if name == "tenants":
        if row["name"] == "exclusive-process":
            return "meets" if int(value) <= 1 else "fails"
        if 0 < instances(variant) < int(value):
            return "fails"
        if planned is None:
            return "unknown"
        enough = row["outcome"] == "measured" and int(value) <= run["plan"]["tenants"]
        return "meets" if enough else "unknown"
    if value[-3:] in UNITS:
        size = float(value[:-3]) * 2 ** UNITS[value[-3:]]
        return memory(run, variant, size) if planned else "unknown"
    if name == "throughput":
        rows = [one for one in run.get("operator", []) if one["variant"] == variant
                and one["tenants"] == run["plan"]["tenants"] and run["plan"]["decides"]]
        ends = [judge(*bounds_of(one["stp"]), sign, float(value)) for one in rows]
        return all_of(ends or ["unknown"])
    return of_rows(run, variant, name, sign, value if value[0] == "L" else float(value))


def wanted(needs):
    return max((int(one[9:]) for one in needs if one.startswith("tenants>=")), default=2)


def of_need(run, variant, need, needs):
    """Fewer tenants than are needed show what fails and not what holds."""
    found = outcome(run, variant, need)
    is_exact = need == "processes" or need.startswith(("no-", "tenants"))
    is_short = run["plan"]["tenants"] < wanted(needs) and not is_exact
    return "unknown" if is_short and found == "meets" else found


def draw(rng, run):
    parts = sorted({row[key] for row in run["matrix"] if row["axis"] == "fault"
                    for key in ("sub_axis", "aggressor") if row.get(key)})
    level, share = f"L{rng.randint(1, 3)}", f"{rng.uniform(0, 1.05):.3f}"
    resource = rng.choice(["compute", "bandwidth", "dram", "l2", "pcie", "compute/sm"])
    kinds = [f"{resource}>={level}", f"{resource}>={share}", f"efficiency>={share}",
             f"guarantee/{resource}>={share}", f"throughput>={rng.uniform(0.5, 1.7):.2f}",
             f"memory>={level}", f"memory/{rng.choice(PARTS['memory'])}>={level}",
             f"residue>={share}", f"jitter>={level}", f"jitter<={rng.uniform(0, 2):.3f}",
             f"tail<={rng.uniform(0, 7):.2f}", f"fault>={level}", f"fault>={share}",
             "memory-cap", "processes",
             f"tenants>={rng.randint(1, 5)}", f"memory>={rng.randint(1, 160)}GiB",
             f"no-{rng.choice(['restart', 'root', 'drain', 'reset', 'reboot'])}"]
    kinds += [f"fault/{rng.choice(parts)}>={level}"] if parts else []
    return rng.sample(kinds, rng.randint(1, 4))


def call(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 4), f"{arguments}: {done.stderr}"
    return done.stdout


def choose(program, record, needs):
    flags = [part for need in needs for part in ("--need", need)]
    return json.loads(call(program, "choose", record, "--format", "json", *flags))


def check(program, record, sets, rng):
    run = json.loads(call(program, "report", record, "--format", "json"))
    seen = {"meets": 0, "fails": 0, "unknown": 0}
    for _ in range(sets):
        needs = draw(rng, run)
        found = choose(program, record, needs)
        for one in found["mechanisms"]:
            each = [of_need(run, one["variant"], need, needs) for need in needs]
            said = [need["outcome"] for need in one["needs"]]
            assert each == said, f"{record} {one['variant']} {needs}: {each}, choose: {said}"
            # Sharing is for two tenants at least.
            is_alone = one["mechanism"] == "exclusive-process" and wanted(needs) >= 2
            whole = "fails" if is_alone else all_of(each)
            assert one["outcome"] == whole, f"{record} {one['variant']} {needs}"
            assert bool(one["refusal"]) == is_alone, f"{record} {one['variant']} {needs}"
            assert not (is_alone and one["on_front"]), f"{record} {one['variant']} {needs}"
            is_named = one["variant"] in found["answer"]
            assert is_named == (one["outcome"] == "meets"), f"{one['variant']} {needs}"
            seen[one["outcome"]] += 1
    print(f"{record}: {sets} sets of needs, {seen}")


def check_page(program, record, sets, rng):
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    from check_page import WIDE, Chromium
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.html"
        call(program, "report", record, "--format", "html", "--output", str(page))
        browser = Chromium()
        try:
            browser.open(page.as_uri(), WIDE)
            names = browser.evaluate("[...document.querySelectorAll('#choice input')]"
                                     ".map(one => one.name)")
            assert names, "the page has no sliders"
            for _ in range(sets):
                wanted = {name: rng.randint(1, 3) for name in rng.sample(names, rng.randint(1, 4))}
                needs = []
                for name, step in wanted.items():
                    if name == "jitter":
                        wanted[name] = rng.randint(1, 40)
                        needs.append(f"jitter<={2 - wanted[name] * 0.05:.2f}")
                    else:
                        needs.append(f"{name}>=L{step}")
                shown = browser.evaluate(f"""(() => {{
                    const wanted = {json.dumps(wanted)};
                    for (const one of document.querySelectorAll('#choice input')) {{
                        one.value = wanted[one.name] || 0;
                        one.dispatchEvent(new Event('input', {{bubbles: true}}));
                    }}
                    const rows = [...document.querySelectorAll('#choice [data-variant]')];
                    return Object.fromEntries(rows
                        .map(row => [row.dataset.variant, row.dataset.outcome]));
                }})()""")
                found = choose(program, record, needs)
                said = {one["variant"]: one["outcome"] for one in found["mechanisms"]}
                wrong = {name: (shown[name], said[name]) for name in shown
                         if shown[name] != said[name]}
                assert shown and not wrong, f"{record} {needs}: page, verb: {wrong}"
        finally:
            browser.end()
    print(f"{record}: {sets} settings of the page's sliders agree with the verb")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("records", nargs="+")
    parser.add_argument("--sets", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    for record in args.records:
        (check_page if args.page else check)(args.program, record, args.sets, rng)


if __name__ == "__main__":
    main()
