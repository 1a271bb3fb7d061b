"""Reads what gpubench writes with programs of others:
`target/readers/bin/python ci/check_formats.py GPUBENCH RECORD`.

GPUBENCH is the binary, RECORD the folder of a run. JSON is validated against the published schemas
by `jsonschema`, CSV read by pandas and DuckDB, Parquet by pyarrow and DuckDB, JUnit against the
schema of Jenkins' xUnit plugin, OpenMetrics by promtool and the parser of `prometheus_client`.
"""

import io
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import jsonschema
import pandas
import pyarrow.parquet
import xmlschema
from prometheus_client.openmetrics import parser as openmetrics

ROOT = Path(__file__).resolve().parent.parent
READERS = ROOT / "target" / "readers"
GOLDEN = ROOT / "reports" / "golden"
CATALOGUES = "mechanisms workloads faults axes probes gates profiles formats".split()

# Columns of the sample table whose numbers need a legend.
LEGENDS = ["phase", "status", "error", "t_sched_ns", "t_done_ns", "gpu_ns", "issuer_idle"]
TYPES = {
    "session": "uint32",
    "block": "uint32",
    "seq": "uint64",
    "phase": "uint8",
    "status": "uint8",
    "error": "int32",
    "t_done_ns": "uint64",
    "issuer_idle": "bool",
}


def snapshot(text):
    """The text that a golden file holds, without the head of the test library.

    >>> snapshot("---\\nsource: a.rs\\n---\\nbody\\n")
    'body\\n'
    """
    return text.split("---\n", 2)[2]


class Program:
    """The binary, and the schemas of what it prints."""

    def __init__(self, path):
        self.path = path
        self.validated = 0
        self.validators = {}
        for file in sorted((ROOT / "reports" / "schema").glob("*.json")):
            schema = json.loads(file.read_text())
            jsonschema.Draft202012Validator.check_schema(schema)
            self.validators[file.stem] = jsonschema.Draft202012Validator(schema)

    def prints(self, *arguments, statuses=(0,)):
        """The standard output of a call that ends with one of these statuses."""
        done = subprocess.run([self.path, *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode in statuses, f"{arguments}: {done.returncode}: {done.stderr}"
        return done.stdout

    def is_valid(self, schema, text, name):
        """Validates a text, which is JSON, against a published schema."""
        errors = sorted(self.validators[schema].iter_errors(json.loads(text)), key=str)
        first = "; ".join(f"{error.json_path}: {error.message[:200]}" for error in errors[:3])
        assert not errors, f"{name} against {schema}.json: {len(errors)} errors: {first}"
        self.validated += 1


def check_json(program, record):
    """Every golden record, those of older versions as this one prints them, and every verb."""
    for golden in sorted(GOLDEN.glob("*.json.snap")):
        program.is_valid("record", snapshot(golden.read_text()), golden.name)
    with tempfile.TemporaryDirectory() as scratch:
        # Copies, because histories keep an index beside the records.
        folders = [Path(scratch) / "new"]
        shutil.copytree(record, folders[0])
        for example in sorted((ROOT / "reports" / "examples").glob("[!.]*/")):
            folders.append(Path(scratch) / example.name)
            shutil.copytree(example, folders[-1])
        for old in sorted(GOLDEN.glob("*.format-*.json")):
            folders.append(Path(scratch) / old.stem)
            folders[-1].mkdir()
            shutil.copy(old, folders[-1] / "record.json")
        for folder in folders:
            # The records of old versions with virtual tenants lack cells that they say they have:
            # they print, and end as damaged.
            damaged = (4,) if folder.name.startswith("virtual.format-") else ()
            text = program.prints("report", folder, "--format", "json", statuses=(damaged or (0,)))
            program.is_valid("record", text, folder.name)
            diff = ("diff", folder, "--format", "json", "--advisory", "--", folder)
            text = program.prints(*diff, statuses=(0, 20, *damaged))
            program.is_valid("diff", text, f"diff {folder.name}")
        for verb in ("history", "compare", "outliers"):
            text = program.prints(verb, *folders, "--format", "json", statuses=(0, 4, 10))
            program.is_valid(verb, text, verb)
    check_other_verbs(program, record)
    plan = ("plan", "--device", "virtual", "--profile", "smoke", "--format", "json")
    program.is_valid("plan", program.prints(*plan), "plan")
    program.is_valid("rehearsal", program.prints(*plan, "--rehearse"), "plan --rehearse")
    for catalogue in CATALOGUES:
        text = program.prints("list", catalogue, "--format", "json")
        program.is_valid("list", text, f"list {catalogue}")


def check_other_verbs(program, record):
    """What the other verbs print, with the flags that change its form."""
    need = ("--need", "compute>=L1", "--need", "jitter<=0.5")
    tree = ("--isolation", "hard", "--mig", "yes")
    fleet = ("--gpu", "H100-80", "--tenants", "12", "--tenant-memory-gb", "10",
             "--tenant-compute", "0.2")
    calls = {
        "choose": [(record,), (record, *need), (record, *need, "--accept-unknown")],
        "claims": [(), ("--recipes",), (record,)],
        "doctor": [("--device", "virtual"), ("--device", "virtual", "--verify")],
        "spread": [("--device", "virtual", "--profile", "smoke", "--calibrate", "--sessions", "2")],
        "advise": [tree, (*tree, "--config", "--gpu", "H100-80")],
        "simulate": [("--duration-s", "5"), ("--duration-s", "5", "--loads", "0.2,0.5"),
                     ("--duration-s", "5", "--calibrate", record)],
        "pack": [(*fleet, "--price-per-hour", "2"), ("--from", record, "--chargeback")],
        "virtual-gpu": [("list",), ("list", "--hosts")],
        "schemas": [()],
    }
    for schema, of_verb in calls.items():
        verb = "doctor" if schema == "spread" else schema
        for arguments in of_verb:
            text = program.prints(verb, *arguments, "--format", "json")
            program.is_valid(schema, text, f"{verb} {arguments}")
    for one in json.loads(program.prints("schemas", "--format", "json"))["rows"]:
        published = (ROOT / "reports" / "schema" / f"{one['name']}.json").read_text()
        assert program.prints("schemas", one["name"]) == published, one["name"]


def check_csv(program, record):
    """Two readers see the same table, with numbers as numbers."""
    text = program.prints("report", record, "--format", "csv")
    frame = pandas.read_csv(io.StringIO(text))
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        file.write(text.encode())
        file.flush()
        table = duckdb.read_csv(file.name)
        assert table.columns == list(frame.columns), "the columns of pandas and DuckDB differ"
        count = table.aggregate("count(*)").fetchall()[0][0]
        assert count == len(frame) > 0, "the rows of pandas and DuckDB differ"
        types = dict(zip(table.columns, map(str, table.types)))
    for column in ("retention", "retention_lo", "retention_n"):
        assert frame[column].dtype.kind in "fi", f"pandas reads {column} as {frame[column].dtype}"
        assert types[column] in ("DOUBLE", "BIGINT"), f"DuckDB reads {column} as {types[column]}"


def check_parquet(record):
    """Types, legends, and equal sums by two readers."""
    for name in ("samples", "telemetry"):
        path = str(record / f"{name}.parquet")
        table = pyarrow.parquet.read_table(path)
        rows = duckdb.sql(f"select count(*) from '{path}'").fetchall()[0][0]
        assert rows == table.num_rows > 0, f"{name}: {rows} and {table.num_rows} rows"
    path = str(record / "samples.parquet")
    file = pyarrow.parquet.ParquetFile(path)
    types = {field.name: str(field.type) for field in file.schema_arrow}
    for column, wanted in TYPES.items():
        assert types[column] == wanted, f"{column} is {types[column]} and not {wanted}"
    metadata = {key.decode(): value.decode() for key, value in file.metadata.metadata.items()}
    missing = [column for column in LEGENDS if f"gpubench.{column}" not in metadata]
    assert not missing, f"no legend of {missing} among {sorted(metadata)}"
    query = f"select sum(t_done_ns - t_sched_ns) from '{path}' where t_done_ns is not null"
    frame = file.read(["t_sched_ns", "t_done_ns"]).to_pandas().dropna()
    total = int((frame.t_done_ns - frame.t_sched_ns).sum())
    assert duckdb.sql(query).fetchall()[0][0] == total, "the latencies of pyarrow and DuckDB differ"


def check_junit(program, record):
    """Reports and comparisons follow the schema, and their suites can be followed over time."""
    schema = xmlschema.XMLSchema(str(READERS / "junit-10.xsd"))
    diff = ("diff", record, "--format", "junit", "--advisory", "--", record)
    texts = {
        "gpubench matrix": [program.prints("report", record, "--format", "junit")],
        "gpubench diff": [program.prints(*diff)],
    }
    for golden in sorted(GOLDEN.glob("*.junit.snap")):
        texts["gpubench matrix"].append(snapshot(golden.read_text()))
    for name, of_suite in texts.items():
        for text in of_suite:
            schema.validate(text)
            suite = schema.to_dict(text)["testsuite"][0]
            assert suite["@name"] == name, suite["@name"]
            assert suite["@timestamp"].startswith("20"), suite["@timestamp"]
    suite = schema.to_dict(texts["gpubench matrix"][0])["testsuite"][0]
    assert float(suite["@time"]) > 0, "a suite without its time"
    assert any("@time" in case for case in suite["testcase"]), "no case has a time"


def check_metrics(program, record):
    """Two parsers accept the text, and a figure is that of the record."""
    promtool = shutil.which(READERS / "bin" / "promtool") or shutil.which("promtool")
    if not promtool:
        print("promtool is missing: OpenMetrics is parsed by prometheus_client alone")
    texts = [program.prints("report", record, "--format", "openmetrics")]
    for golden in sorted(GOLDEN.glob("*.openmetrics.snap")):
        texts.append(snapshot(golden.read_text()))
    for text in texts:
        if promtool:
            done = subprocess.run(
                [promtool, "check", "metrics"], input=text, text=True, capture_output=True
            )
            assert done.returncode == 0, f"promtool: {done.stdout}{done.stderr}"
        families = {one.name: one for one in openmetrics.text_string_to_metric_families(text)}
        assert families["gpubench_record"].samples[0].labels["device"], "no device"
    run = json.loads(program.prints("report", record, "--format", "json"))
    values = [row["retention"]["value"] for row in run["matrix"] if row["retention"]]
    # A bound has no value.
    rows = [value for value in values if value is not None]
    families = openmetrics.text_string_to_metric_families(texts[0])
    found = {one.name: one for one in families}["gpubench_retention_ratio"]
    assert [sample.value for sample in found.samples] == rows, "the retentions differ"


def check_dataset(program, record):
    """DuckDB runs the queries of the guide on an exported dataset, which has each record once."""
    with tempfile.TemporaryDirectory() as folder:
        dataset = Path(folder) / "dataset"
        # A folder of nights gets an index, and that of the examples stays as it is.
        nights = Path(folder) / "nights"
        shutil.copytree(ROOT / "reports" / "examples", nights)
        shutil.copytree(record, nights / "run")
        for _ in range(2):
            program.prints("export", "--dataset", dataset, nights)
        program.prints("export", "--dataset", dataset, "--compact")
        guide = (ROOT / "reports/book/src/how-to/dataset.md").read_text()
        queries = [part.split("```")[0] for part in guide.split("```sql\n")[1:]]
        queries = [query for query in queries if "read_parquet" in query]
        assert len(queries) == 2, queries
        for query in queries:
            found = duckdb.sql(query.replace("DATASET", str(dataset))).fetchall()
            assert found, f"no row: {query}"
        files = f"read_parquet('{dataset}/*/*.parquet', hive_partitioning = true)"
        [[rows, distinct, inside]] = duckdb.sql(
            f"SELECT count(*), count(DISTINCT (record, variant, axis, victim, aggressor, dose, "
            f"metric)), count(*) FILTER (lo <= value AND value <= hi) FROM {files}").fetchall()
        assert rows == distinct == inside > 0, (rows, distinct, inside)


def main(binary, record):
    program, record = Program(binary), Path(record)
    check_json(program, record)
    check_csv(program, record)
    check_parquet(record)
    check_junit(program, record)
    check_metrics(program, record)
    check_dataset(program, record)
    print(f"read by others: {program.validated} JSON texts, CSV, Parquet, JUnit, OpenMetrics, "
          "a dataset")


if __name__ == "__main__":
    main(*sys.argv[1:])
