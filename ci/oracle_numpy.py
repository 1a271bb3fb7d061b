"""The queueing model in NumPy, the reference of `gpubench simulate --rng numpy`.

    python ci/oracle_numpy.py table [--tenants N] [--service-ms S] [--rate-per-s L] ...
    python ci/oracle_numpy.py bits FILE < JOBS

`table` prints a table or JSON. `bits` reads a JSON list of jobs and writes the
results as 64-bit little-endian words, floats as their bits, so that equality means every bit.
"""

import argparse
import json
import struct
import sys

import numpy as np


def streams(rng, loads, duration):
    """Poisson arrivals of all tenants from one generator, sorted by (time, tenant)."""
    events = []
    for tenant, (_, rate) in enumerate(loads):
        t = 0.0
        while True:
            t += rng.exponential(1.0 / rate)
            if t >= duration:
                break
            events.append((t, tenant))
    events.sort()
    return events


def mig(events, loads, slices, duration):
    free = [0.0] * len(loads)
    latencies = []
    for now, tenant in events:
        service = slices * loads[tenant][0]
        start = max(now, free[tenant])
        end = start + service
        free[tenant] = end
        if end < duration:
            latencies.append(start - now + service)
    return latencies


def mps(events, loads, contention, hostile, duration):
    last_end = [0.0] * len(loads)
    latencies = []
    for now, tenant in events:
        concurrent = sum(1 for end in last_end if end > now)
        factor = contention
        if hostile is not None and tenant != hostile[0] and last_end[hostile[0]] > now:
            factor = hostile[1]
        service = loads[tenant][0] * (1 + factor * concurrent)
        start = max(now, last_end[tenant])
        end = start + service
        last_end[tenant] = end
        if end < duration:
            latencies.append(start - now + service)
    return latencies


def time_slice(events, loads, switch, duration):
    free = 0.0
    last = None
    latencies = []
    for now, tenant in events:
        service = loads[tenant][0]
        start = max(now, free)
        if last is not None and tenant != last:
            start += switch
        last = tenant
        free = start + service
        if free < duration:
            latencies.append(start - now + service)
    return latencies


def run(job):
    rng = np.random.default_rng(job["seed"])
    loads = [(ms / 1000.0, rate) for ms, rate in job["loads"]]
    duration = job["duration_s"]
    events = streams(rng, loads, duration)
    modes = [
        ("MIG", mig(events, loads, job["slices"], duration)),
        ("MPS", mps(events, loads, job["contention"], job.get("hostile"), duration)),
        ("time-slice", time_slice(events, loads, job["switch_ms"] / 1000.0, duration)),
    ]
    return events, modes


def figures(latencies):
    if not latencies:
        return None, None
    p50, p99 = np.percentile(latencies, [50, 99])
    return p50 * 1000.0, p99 * 1000.0


def table(args):
    job = {
        "seed": args.seed,
        "loads": [(args.service_ms, args.rate_per_s)] * args.tenants,
        "duration_s": args.duration_s,
        "slices": args.tenants,
        "contention": args.contention,
        "switch_ms": args.switch_ms,
    }
    events, modes = run(job)
    rows = []
    for name, latencies in modes:
        p50, p99 = figures(latencies)
        percent = 100.0 * len(latencies) / len(events) if events else None
        row = {"mode": name, "served": len(latencies), "served_percent": percent}
        rows.append({**row, "p50_ms": p50, "p99_ms": p99})
    if args.format == "json":
        print(json.dumps({"offered": len(events), "modes": rows}))
        return
    print(f"{'mode':<11} {'offered':>8} {'served':>8} {'%':>6} {'p50 ms':>9} {'p99 ms':>9}")
    for r in rows:
        print(
            f"{r['mode']:<11} {len(events):>8} {r['served']:>8} {r['served_percent']:>6.1f}"
            f" {r['p50_ms']:>9.2f} {r['p99_ms']:>9.2f}"
        )


def float_words(values):
    return np.asarray(values, dtype="<f8").tobytes()


def bits(path):
    """For each job: raw words, uniforms and exponentials of its seed, then arrivals and figures."""
    with open(path, "wb") as out:
        for job in json.load(sys.stdin):
            generator = np.random.default_rng(job["seed"])
            out.write(generator.bit_generator.random_raw(job["raw"]).astype("<u8").tobytes())
            out.write(float_words(generator.random(job["uniform"])))
            out.write(float_words(generator.standard_exponential(job["exponential"])))
            events, modes = run(job)
            out.write(struct.pack("<Q", len(events)))
            out.write(float_words([time for time, _ in events]))
            out.write(np.asarray([tenant for _, tenant in events], dtype="<u8").tobytes())
            for _, latencies in modes:
                p50, p99 = figures(latencies)
                out.write(struct.pack("<Qdd", len(latencies), p50, p99))


def main():
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("table")
    one.add_argument("--tenants", type=int, default=7)
    one.add_argument("--service-ms", type=float, default=10.0)
    one.add_argument("--rate-per-s", type=float, default=12.0)
    one.add_argument("--duration-s", type=float, default=60.0)
    one.add_argument("--contention", type=float, default=0.18)
    one.add_argument("--switch-ms", type=float, default=0.8)
    one.add_argument("--seed", type=int, default=7)
    one.add_argument("--format", choices=["table", "json"], default="table")
    verbs.add_parser("bits").add_argument("file")
    args = parser.parse_args()
    table(args) if args.verb == "table" else bits(args.file)


if __name__ == "__main__":
    main()
