"""Records into a dataset, and a dataset of 100,000 nights: `check_dataset.py GPUBENCH [NIGHTS]`.

`export --dataset` reads copies of a smoke record that are in the index, at least 150 a second.
NIGHTS (100,000) rows of each figure, of 1,000 GPUs under one driver and then another that loses
10 % of a retention, are written by DuckDB in the form of an export. `history` of it must find the
loss within 20 s and 2 GiB; the queries of the guide run in DuckDB. Prints sizes, times and memory.
"""

import datetime
import json
import multiprocessing
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import duckdb

ROOT = pathlib.Path(__file__).parent.parent
RECORDS, RATE_MIN = 600, 150
GPUS = 1000
HISTORY_S, MEMORY_KIB = 20, 2 << 20
DRIVERS = ("580.00.virtual", "590.00.virtual")


def run(*command):
    """What a command printed, how long it took, and its largest memory: that of the rusage of a
    child begins with the memory of its parent."""
    began, memory = time.monotonic(), 0
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(command, stdout=out, stderr=errors) as child:
            while child.poll() is None:
                status = pathlib.Path(f"/proc/{child.pid}/status")
                lines = status.read_text().splitlines() if status.exists() else []
                peaks = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
                memory = max([memory, *peaks])
                time.sleep(0.02)
        took = time.monotonic() - began
        for file in (out, errors):
            file.seek(0)
        done = subprocess.CompletedProcess(command, child.returncode, out.read(), errors.read())
    return done, took, memory


def expect(holds, what):
    print(("ok      " if holds else "FAILED  ") + what, flush=True)
    return holds


def check_rate(program, base, folder):
    record = json.loads((base / "record.json").read_text())
    for number in range(RECORDS):
        out = folder / f"nights/{number}"
        out.mkdir(parents=True)
        day, hour = divmod(number, 24)
        month, day = divmod(day, 28)
        record["provenance"]["started_at"] = f"2026-{month + 1:02}-{day + 1:02}T{hour:02}:00:00Z"
        (out / "record.json").write_text(json.dumps(record, separators=(",", ":")))
    def rate(dataset):
        nights = folder / "nights"
        done, took, memory = run(program, "export", "--dataset", folder / dataset, nights)
        assert done.returncode == 0 and f"{RECORDS} records" in done.stderr, done.stderr
        return RECORDS / took, memory >> 10

    cold, memory = rate("cold")
    # As a nightly job leaves them: it has compared each night with those before.
    done, *_ = run(program, "history", folder / "nights")
    assert done.returncode == 0, done.stderr
    indexed, _ = rate("indexed")
    [file] = [path for path in (folder / "cold").rglob("*.parquet") if "2026-01" in str(path)]
    same = (folder / "indexed" / file.relative_to(folder / "cold")).read_bytes()
    holds = expect(same == file.read_bytes(), "both exports are the same to the byte")
    return holds & expect(indexed >= RATE_MIN, f"export: {indexed:.0f} records a second, at least "
                          f"{RATE_MIN}; {cold:.0f} that nothing has read yet, {memory} MiB")


def write_nights(base, folder, nights):
    """The figures of one record for every night of every GPU, in the form of an export: a file for
    each month, in which no record is divided."""
    each = nights // GPUS
    record = json.loads((base / "record.json").read_text())
    uuid, driver = record["device"]["uuid"], record["device"]["driver"]
    duckdb.sql("SET enable_progress_bar = false")
    duckdb.sql("SET memory_limit = '8GB'")
    first = datetime.date(2026, 1, 1)
    months = {}
    for night in range(each):
        months.setdefault((first + datetime.timedelta(night)).strftime("%Y-%m"), []).append(night)
    loses = "metric = 'retention' AND variant = 'time-slicing[slice=default]' " \
            "AND axis = 'bandwidth/dram'"
    for month, of_month in months.items():
        path = folder / f"month={month}"
        path.mkdir(parents=True)
        day = f"(TIMESTAMP '{first} 02:00:00' + INTERVAL (night) DAY)"
        duckdb.sql(f"""
            COPY (SELECT * EXCLUDE (name, version, night, moment) REPLACE (
                    'node-' || name AS host, name AS gpu, version AS driver, moment AS started_at,
                    md5(name || moment) AS record,
                    replace(replace(session, '{uuid}', name), '"driver":"{driver}"',
                            '"driver":"' || version || '"') AS session,
                    value * (1 + 0.01 * (random() - 0.5))
                        * CASE WHEN night >= {each // 2} AND {loses} THEN 0.9 ELSE 1.0 END AS value)
                FROM (SELECT * EXCLUDE (month) FROM
                      read_parquet('{base}/dataset/*/*.parquet', hive_partitioning = true)),
                     (SELECT 'GPU-' || lpad(g::VARCHAR, 8, '0') AS name, night::BIGINT AS night,
                             strftime({day}, '%Y-%m-%dT%H:%M:%SZ') AS moment,
                             CASE WHEN night >= {each // 2} THEN '{DRIVERS[1]}'
                                  ELSE '{DRIVERS[0]}' END AS version
                      FROM range({GPUS}) AS gpus(g),
                           range({of_month[0]}, {of_month[-1] + 1}) AS nights(night))
                ORDER BY host, gpu, driver, started_at)
            TO '{path}/export.parquet' (FORMAT parquet, COMPRESSION zstd)""")


def check_nights(program, base, folder, nights):
    shutil.rmtree(base / "dataset", ignore_errors=True)
    done, *_ = run(program, "export", "--dataset", base / "dataset", base)
    assert done.returncode == 0, done.stderr
    dataset = folder / "dataset"
    # In a process of its own: that of a child counts the memory of its parent at its start.
    writer = multiprocessing.get_context("spawn").Process(
        target=write_nights, args=(base, dataset, nights))
    writer.start()
    writer.join()
    assert writer.exitcode == 0, "the dataset is not written"
    size = sum(path.stat().st_size for path in dataset.rglob("*.parquet"))
    [[rows]] = duckdb.sql(f"SELECT count(*) FROM read_parquet('{dataset}/*/*.parquet')").fetchall()
    print(f"{nights} nights: {rows} figures, {size / 2**20:.0f} MiB")
    done, took, memory = run(program, "history", dataset)
    head = done.stdout.splitlines()[0] if done.stdout else done.stderr
    holds = expect(done.returncode == 30 and "time-slicing" in head and "driver" in head,
                   f"history ends with {done.returncode}: {head[:160]}")
    holds &= expect(took <= HISTORY_S and memory <= MEMORY_KIB,
                    f"in {took:.1f} s and {memory >> 10} MiB, at most {HISTORY_S} s and "
                    f"{MEMORY_KIB >> 10} MiB")
    guide = (ROOT / "reports/book/src/how-to/dataset.md").read_text()
    queries = [part.split("```")[0] for part in guide.split("```sql\n")[1:]]
    for query in (query for query in queries if "read_parquet" in query):
        began = time.monotonic()
        found = duckdb.sql(query.replace("DATASET", str(dataset))).fetchall()
        print(f"a query of the guide: {len(found)} rows in {time.monotonic() - began:.1f} s")
    return holds


def main(program, nights=100_000):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        base = folder / "base"
        done, *_ = run(program, "matrix", "--device", "virtual", "--profile", "smoke", "--out",
                       base)
        assert done.returncode == 0, done.stderr
        holds = check_rate(program, base, folder)
        holds &= check_nights(program, base, folder, nights)
    sys.exit(not holds)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
