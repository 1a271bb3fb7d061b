#!/bin/sh
# Creates target/deny with cargo-deny, compiled from its crate (some minutes once).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
# cargo does nothing for a version that is there. Its build folder is temporary.
cargo install --quiet --locked --root "$root/target/deny" --version 0.20.2 cargo-deny
echo "deny: $("$root/target/deny/bin/cargo-deny" --version)"
