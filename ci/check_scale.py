"""Compares gpubench with DuckDB on 20 million samples:
`target/readers/bin/python ci/check_scale.py GPUBENCH RECORD`.

RECORD is the folder of a finished run. Two records with 10 million samples each are made of it:
every request becomes many, each shorter by the same factor, so that cells, phases and order stay.
Then, side by side, the median of three runs each:

- `report` of both records without their latency logs, so that percentiles come from the samples;
- `diff` of both;
- DuckDB on the same files: the same quantiles of the same groups, with one group for each cell.

Then `diff` of both as an interrupted run leaves them, without `record.json`: every cell passes all
gates again, which is more work than quantiles. Then the pages of both. It fails where `report` or
`diff` takes more than 1.5 times the time of DuckDB, where anything takes 2 GiB of memory, where the
quantiles differ by more than the three digits that a report prints, or where judging or the pages
take more than 15 s.
"""

import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy
import pyarrow
import pyarrow.parquet

ROWS = 10_000_000
ROW_GROUP = 131_072
RATIO_MAX = 1.5
SECONDS_MAX = 15
MEMORY_MAX = 2 << 30
RUNS = 3
OPEN, OK = 2, 0
UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def nanoseconds(text):
    """A printed time, before its interval; `None` for a percentile without a value.

    >>> nanoseconds("1.5 ms<br>[1.4 ms, ?]"), nanoseconds("900 ns"), nanoseconds("-")
    (1500000.0, 900.0, None)
    """
    found = re.match(r"([0-9.]+) (ns|us|ms|s)\b", text.strip())
    return float(found[1]) * UNITS[found[2]] if found else None


def blown_up(columns, factor, seed):
    """The sample table with `factor` requests in place of each.

    >>> one = {name: numpy.array([0, 1]) for name in ("seq", "error", "phase", "status")}
    >>> one |= {"cell": numpy.array(["c", "c"]), "tenant": numpy.array(["v", "v"])}
    >>> one |= {name: numpy.array([0.0, 100.0]) for name in ("t_sched_ns", "t_issue_ns")}
    >>> one |= {name: numpy.array([80.0, 180.0]) for name in ("t_ret_ns", "t_done_ns", "gpu_ns")}
    >>> many = blown_up(one | {"phase": numpy.array([1, 1])}, 2, 1)
    >>> [int(one) for one in many["t_sched_ns"]], [int(one) for one in many["seq"]]
    ([0, 50, 100, 140], [0, 1, 2, 3])
    """
    count = len(columns["seq"])
    same = numpy.ones(count, bool)
    for name in ("cell", "tenant", "phase"):
        same[:-1] &= columns[name][1:] == columns[name][:-1]
    same[-1] = False
    # The time that a request has: until the next one of its loop, else until its own end.
    sched = columns["t_sched_ns"]
    gap = numpy.nan_to_num(columns["t_done_ns"] - sched, nan=1000.0)
    gap[:-1] = numpy.where(same[:-1], sched[1:] - sched[:-1], gap[:-1])
    index = numpy.repeat(numpy.arange(count), factor)
    part = numpy.tile(numpy.arange(factor), count)
    shift = numpy.floor(gap[index] * part / factor)
    # Latencies vary, so that quantiles are no multiples of those of the original.
    noise = numpy.random.default_rng(seed).uniform(0.7, 1.0, len(index))
    many = {name: values[index] for name, values in columns.items()}
    many["seq"] = columns["seq"][index] * factor + part
    many["t_sched_ns"] = sched[index] + shift
    for name in ("t_issue_ns", "t_ret_ns", "t_done_ns"):
        after = (columns[name] - sched)[index] / factor
        many[name] = many["t_sched_ns"] + numpy.floor(after * noise)
    many["gpu_ns"] = numpy.floor(columns["gpu_ns"][index] / factor)
    return many


def multiplied(text, factor):
    """JSON with the counts of logged rows and of requests multiplied."""

    def walk(value, key=None):
        if isinstance(value, dict):
            return {name: walk(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [walk(one, key) for one in value]
        if key in ("rows", "open_requests") and isinstance(value, int):
            return value * factor
        return value

    return json.dumps(walk(json.loads(text)))


def make(source, target, seed):
    """A record like `source` with many times its samples, without checksums and latency log."""
    table = pyarrow.parquet.read_table(source / "samples.parquet")
    factor = math.ceil(ROWS / table.num_rows)
    columns = {}
    for name in table.column_names:
        column = table[name].to_numpy()
        columns[name] = column.astype(float) if name.endswith("_ns") else column
    target.mkdir()
    path = target / "samples.parquet"
    writer = pyarrow.parquet.ParquetWriter(path, table.schema, compression="zstd")
    step = max(1, ROW_GROUP * 8 // factor)
    keys = columns["cell"] + "/" + columns["tenant"]
    starts = [0, *(numpy.flatnonzero(keys[1:] != keys[:-1]) + 1), len(keys)]
    begin = 0
    for end in starts[1:]:
        if end - begin < step and end != len(keys):
            continue
        part = {name: values[begin:end] for name, values in columns.items()}
        many = blown_up(part, factor, seed + begin)
        arrays = [array(many[field.name], field) for field in table.schema]
        writer.write_table(pyarrow.table(arrays, schema=table.schema), row_group_size=ROW_GROUP)
        begin = end
    writer.close()
    for name in ("record.json", "events.jsonl"):
        lines = (source / name).read_text()
        lines = [lines] if name == "record.json" else lines.splitlines()
        text = "\n".join(multiplied(line, factor) for line in lines) + "\n"
        (target / name).write_text(text)
    (target / "telemetry.parquet").write_bytes((source / "telemetry.parquet").read_bytes())
    return table.num_rows * factor


def array(values, field):
    """A column; stamps that are not a number are null."""
    if values.dtype.kind == "f":
        missing = numpy.isnan(values)
        numbers = numpy.where(missing, 0, values).astype("uint64")
        return pyarrow.array(numbers, field.type, mask=missing)
    return pyarrow.array(values, field.type)


def run(*command, statuses=(0,)):
    """Output, seconds and peak memory in bytes of a command."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        begin = time.monotonic()
        child = subprocess.Popen(list(map(str, command)), stdout=out, stderr=errors)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        for file in (out, errors):
            file.seek(0)
        said = errors.read().decode()
        assert child.returncode in statuses, f"{command}: {child.returncode}: {said}"
        return out.read().decode(), seconds, usage.ru_maxrss * 1024


def curves(folder):
    """The cells that each percentile line of a report pools: victim and label by cell."""
    record = json.loads((folder / "record.json").read_text())
    found = []
    for cell in record["cells"]:
        drawn = cell["condition"] == "N" or (cell["condition"] == "C" and cell["dose"] >= 1)
        if cell["outcome"] != "measured" or not drawn:
            continue
        aggressor = cell.get("aggressor")
        label = f"{cell['variant']} beside {aggressor}" if aggressor else "alone on the GPU"
        tenant = cell["tenant_results"][0]["tenant"]
        found.append((cell["id"], tenant, cell["victim"], label))
    return found


def duckdb_quantiles(folders):
    """The quantiles of every open loop of every tenant and cell, and the seconds they take."""
    begin = time.monotonic()
    found = []
    for folder in folders:
        query = f"""
            select cell, tenant, count(*), quantile_disc(
                case when status = {OK} then t_done_ns - t_sched_ns else 18446744073709551615 end,
                [0.5, 0.9, 0.99, 0.999])
            from '{folder}/samples.parquet' where phase = {OPEN} group by all"""
        found.append(duckdb.sql(query).fetchall())
    return found, time.monotonic() - begin


def check_report(text, folder):
    """Every percentile of the report is that of DuckDB over the same cells."""
    duckdb.sql("drop table if exists curves")
    duckdb.sql("create table curves (cell varchar, tenant varchar, victim varchar, label varchar)")
    duckdb.executemany("insert into curves values (?, ?, ?, ?)", curves(folder))
    query = f"""
        select victim, label, quantile_disc(
            case when status = {OK} then t_done_ns - t_sched_ns else 18446744073709551615 end,
            [0.5, 0.9, 0.99, 0.999])
        from '{folder}/samples.parquet' join curves using (cell, tenant)
        where phase = {OPEN} group by all"""
    wanted = {(victim, label): values for victim, label, values in duckdb.sql(query).fetchall()}
    compared = 0
    for line in text.replace("\\", "").splitlines():
        fields = [field.strip() for field in line.strip("|").split("|")]
        key = tuple(fields[:2])
        if line.startswith("|") and key in wanted and len(fields) == 8:
            for printed, exact in zip(map(nanoseconds, fields[4:]), wanted[key]):
                if printed is not None:
                    assert abs(printed / exact - 1) < 0.006, f"{key}: {printed} and {exact}"
                    compared += 1
    assert compared >= 2 * len(wanted) > 0, f"{compared} percentiles of {len(wanted)} lines"
    return compared


def limit(name, runs, duckdb_s):
    """Whether the median time and the largest memory of these runs keep the limits."""
    seconds = statistics.median(one[0] for one in runs)
    memory = max(one[1] for one in runs)
    ratio = seconds / duckdb_s
    print(f"{name}: {seconds:.2f} s, {ratio:.2f} times DuckDB, {memory / 2**20:.0f} MiB")
    return ratio <= RATIO_MAX and memory < MEMORY_MAX


def compare(binary, folders):
    """The seconds and the peak memory of `diff`."""
    command = [binary, "diff", "--force", "--advisory", "--format", "json"]
    command += [folders[0], "--", folders[1]]
    text, seconds, memory = run(*command, statuses=(0, 20))
    assert json.loads(text)["rows"], "the comparison has no row"
    return seconds, memory


def check_judging(binary, folders):
    """The seconds of `diff` where every cell is judged from its samples."""
    for folder in folders:
        (folder / "record.json").rename(folder / "aside")
    seconds, memory = compare(binary, folders)
    for folder in folders:
        (folder / "aside").rename(folder / "record.json")
    print(f"diff, all cells judged again: {seconds:.2f} s, {memory / 2**20:.0f} MiB")
    return seconds <= SECONDS_MAX and memory < MEMORY_MAX


def check_pages(binary, folders):
    """The seconds that the pages of 20 million samples take."""
    pages = [run(binary, "report", folder, "--format", "html") for folder in folders]
    seconds, memory = sum(one[1] for one in pages), max(one[2] for one in pages)
    assert all("</html>" in one[0] for one in pages), "a page has no end"
    print(f"pages: {seconds:.2f} s, {memory / 2**20:.0f} MiB")
    return seconds <= SECONDS_MAX and memory < MEMORY_MAX


def main(binary, record):
    with tempfile.TemporaryDirectory(dir=Path(record).parent) as scratch:
        folders = [Path(scratch) / name for name in ("before", "after")]
        rows = sum(make(Path(record), folder, seed) for seed, folder in enumerate(folders, 1))
        print(f"{rows} samples in two records, {os.cpu_count()} CPUs")
        report, diff, base = [], [], []
        for _ in range(RUNS):
            quantiles, seconds = duckdb_quantiles(folders)
            base.append(seconds)
            runs = [run(binary, "report", folder, "--format", "md", "--full") for folder in folders]
            report.append((sum(one[1] for one in runs), max(one[2] for one in runs)))
            texts = [one[0] for one in runs]
            diff.append(compare(binary, folders))
        compared = sum(map(check_report, texts, folders))
        groups = sum(map(len, quantiles))
        print(f"{groups} groups; {compared} printed percentiles are those of DuckDB")
        duckdb_s = statistics.median(base)
        print(f"DuckDB: {duckdb_s:.2f} s")
        fits = [limit(name, runs, duckdb_s) for name, runs in (("report", report), ("diff", diff))]
        fits += [check(binary, folders) for check in (check_judging, check_pages)]
        limits = f"1.5 times DuckDB, 2 GiB or {SECONDS_MAX} s of judging or pages"
        sys.exit(0 if all(fits) else f"over the limit of {limits}")


if __name__ == "__main__":
    main(*sys.argv[1:])
