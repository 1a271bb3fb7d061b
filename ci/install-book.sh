#!/bin/sh
# Creates target/book: mdBook, compiled from its crate (some minutes once), and a Python with what
# the reader of records, its tests and its notebook need, as wheels. Chromium, for the pictures of
# pages, comes by ci/install-page.sh.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
home="$root/target/book"
# cargo does nothing for a version that is there. Its build folder is temporary.
cargo install --quiet --locked --root "$home" --no-default-features --features search \
    --version 0.5.4 mdbook
[ -x "$home/py/bin/python" ] || python3 -m venv "$home/py"
"$home/py/bin/python" -m pip install --quiet --disable-pip-version-check \
    polars==2.1.0 altair==6.3.0 pandas==3.1.1 pyarrow==26.0.1 pytest==9.2.0 mypy==2.4.1 \
    nbclient==0.11.0 nbformat==5.11.1 ipykernel==7.4.0 "setuptools>=77" wheel
echo "book: $("$home/bin/mdbook" --version)"
