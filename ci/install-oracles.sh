#!/bin/sh
# Creates target/oracles, a virtual environment with the reference programs of the tests.
# With GPUBENCH_REQUIRE_ORACLES=1 tests fail where it is missing.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
home="$root/target/oracles"
[ -x "$home/bin/python" ] || python3 -m venv "$home"
"$home/bin/python" -m pip install --quiet --disable-pip-version-check numpy==2.4.6 scipy==1.17.1
"$home/bin/python" -c 'import numpy, scipy; print("oracles:", numpy.__version__, scipy.__version__)'
