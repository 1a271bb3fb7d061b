"""Runs the queries of the guide on a dataset in Spark's local mode: `check_spark.py GPUBENCH`.

The dataset has the example records, exported in two parts and as one, and a month more. Each query
for Spark must have the rows that its twin for DuckDB has.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

import duckdb
from pyspark.sql import SparkSession

ROOT = pathlib.Path(__file__).parent.parent


def queries():
    """The pairs of the guide: (DuckDB, Spark).

    >>> [("read_parquet" in one, "parquet.`" in two) for one, two in queries()]
    [(True, True), (True, True)]
    """
    guide = (ROOT / "reports/book/src/how-to/dataset.md").read_text()
    found = [part.split("```")[0].strip().rstrip(";") for part in guide.split("```sql\n")[1:]]
    half = len(found) // 2
    return list(zip(found[:half], found[half:], strict=True))




def main(program):
    with tempfile.TemporaryDirectory() as folder:
        nights, dataset = pathlib.Path(folder) / "nights", pathlib.Path(folder) / "dataset"
        shutil.copytree(ROOT / "reports/examples", nights)
        for part in ([nights / "h100_580.159.04_matrix"], [nights], ["--compact"]):
            subprocess.run([program, "export", "--dataset", dataset, *part], check=True)
        spark = SparkSession.builder.master("local[2]")
        spark = spark.config("spark.ui.showConsoleProgress", "false").getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        for duck, other in queries():
            wanted = duckdb.sql(duck.replace("DATASET", str(dataset))).fetchall()
            found = spark.sql(other.replace("DATASET", str(dataset))).collect()
            # Rows that are equal in the order that the query names come in any order.
            wanted, found = [sorted(str(tuple(row)) for row in rows)
                             for rows in (wanted, found)]
            assert wanted and len(wanted) == len(found), (len(wanted), len(found))
            for one, two in zip(wanted, found, strict=True):
                assert one == two, f"DuckDB: {one}\nSpark: {two}"
        month = spark.read.parquet(str(dataset)).select("month").distinct().collect()
        assert month, "Spark does not see the partitions"
        spark.stop()
    print(f"{len(queries())} queries of the guide have the rows of DuckDB in Spark")


if __name__ == "__main__":
    main(sys.argv[1])
