#!/bin/sh
# Creates target/readers: programs of others that read what gpubench writes. Wheels (DuckDB, pandas,
# pyarrow, jsonschema, xmlschema, prometheus_client), the JUnit schema of Jenkins' xUnit plugin
# (from the source of pytest), and promtool (from Debian's package prometheus, unpacked and not
# installed). Without apt there is no promtool: an error with GPUBENCH_REQUIRE_PROMTOOL=1.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
home="$root/target/readers"
[ -x "$home/bin/python" ] || python3 -m venv "$home"
pip() { "$home/bin/python" -m pip "$@" --quiet --disable-pip-version-check; }
pip install duckdb==2.0.0 pandas==3.1.1 pyarrow==26.0.1 jsonschema==4.26.0 xmlschema==4.3.2 \
    prometheus_client==0.26.0

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if [ ! -f "$home/junit-10.xsd" ]; then
    pip install "setuptools>=77" setuptools-scm
    pip download --no-deps --no-binary pytest --no-build-isolation --dest "$scratch" pytest==8.4.2
    tar -xzf "$scratch"/pytest-*.tar.gz -C "$scratch" --wildcards '*/junit-10.xsd'
    mv "$scratch"/pytest-*/testing/example_scripts/junit-10.xsd "$home/junit-10.xsd"
fi

if [ ! -x "$home/bin/promtool" ] && ! command -v promtool >/dev/null; then
    if (cd "$scratch" && apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb .); then
        mv "$scratch/usr/bin/promtool" "$home/bin/promtool"
    elif [ "${GPUBENCH_REQUIRE_PROMTOOL:-0}" = 1 ]; then
        echo "promtool is missing, and apt does not offer the package prometheus" >&2
        exit 1
    fi
fi
"$home/bin/python" -c 'import duckdb; print("readers: duckdb", duckdb.__version__)'
