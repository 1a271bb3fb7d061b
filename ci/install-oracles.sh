#!/bin/sh
# Makes target/oracles, a virtual environment with the programs that tests compare gpubench to.
# Tests find it there; with GPUBENCH_REQUIRE_ORACLES=1 they fail where it is missing.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
home="$root/target/oracles"
[ -x "$home/bin/python" ] || python3 -m venv "$home"
"$home/bin/python" -m pip install --quiet --disable-pip-version-check numpy==2.4.6
"$home/bin/python" -c 'import numpy; print("oracle: numpy", numpy.__version__)'
