#!/usr/bin/env bash
# The virtual GPU beside every record in reports/examples: `bash ci/fidelity.sh [--write]`.
#
# Fails where the model is more optimistic than the hardware or outside its bounds in a row that
# fidelity.toml does not list, where a listed row is within its bounds, and where FIDELITY.md is out
# of date. With --write, FIDELITY.md is written anew first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=reports/examples
table=$(mktemp "${TMPDIR:-/tmp}/gpubench-fidelity.XXXXXX")
trap 'rm -f "$table"' EXIT
status=0
cargo run --locked --release --quiet -- virtual-gpu fidelity "$folder" \
    --reasons "$folder/fidelity.toml" --format md --output "$table" || status=$?
case $status in
0 | 10 | 30) [ "${1:-}" != --write ] || cp "$table" "$folder/FIDELITY.md" ;;
*) exit "$status" ;;
esac
if ! diff -u "$folder/FIDELITY.md" "$table"; then
    echo "$folder/FIDELITY.md is out of date: bash ci/fidelity.sh --write" >&2
    exit 1
fi
if [ "$status" != 0 ]; then
    sed -n '/^- /p' "$table" >&2
    echo "rows differ that $folder/fidelity.toml does not list, or lists without need" >&2
fi
exit "$status"
