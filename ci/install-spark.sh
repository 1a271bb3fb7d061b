#!/bin/sh
# Creates target/spark, a virtual environment with PySpark and DuckDB. PySpark needs Java 17 or
# newer: where there is none, Debian's package is installed, which needs root.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
home="$root/target/spark"
command -v java >/dev/null || apt-get install --yes --quiet openjdk-17-jre-headless
[ -x "$home/bin/python" ] || python3 -m venv "$home"
"$home/bin/python" -m pip install --quiet --disable-pip-version-check pyspark==4.0.1 duckdb==2.0.0
"$home/bin/python" -c 'import pyspark; print("spark:", pyspark.__version__)'
