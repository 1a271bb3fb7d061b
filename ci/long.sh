#!/usr/bin/env bash
# Checks that take long or need more tools: `bash ci/long.sh [STEP...]`. With no STEP all run.
#
# They build the tenant's package alone, in a folder of its own, because compiler flags change every
# package. valgrind hides the kernel's vDSO, which rustix reads unless it uses libc.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CARGO_BUILD_JOBS="${CARGO_BUILD_JOBS:-2}"

export RUSTFLAGS="${RUSTFLAGS:-} --cfg loom --cfg rustix_use_libc"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/long"

steps=(loom memcheck drd)
package=(--locked -p gpubench-workloads)

say() { printf '== %s\n' "$*"; }

# The ring between issuer and reaper and the count of committed rows, in every order of execution
# that the memory model allows.
step_loom() { timeout --kill-after=30 30m cargo test "${package[@]}" --test loom; }

# The tests of the tenant's hot path: generator, sample log, clock.
hot_path=(generator:: log:: clock::)

# Runs these tests under a tool of valgrind, which ends with status 1 after an error.
under_valgrind() {
    local tool=$1 tests
    shift
    command -v valgrind >/dev/null || { say "valgrind is needed"; return 1; }
    tests=$(cargo test "${package[@]}" --lib --no-run --message-format=json |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
    timeout --kill-after=30 30m valgrind --tool="$tool" --error-exitcode=1 --quiet \
        --suppressions=ci/valgrind.supp "$@" "$tests" --test-threads=1 "${hot_path[@]}"
}

# Reads of memory that is not initialised or not owned, and lost blocks.
step_memcheck() { under_valgrind memcheck --leak-check=full --show-leak-kinds=definite \
    --errors-for-leak-kinds=definite; }

# Accesses of two threads to the same memory without an order.
step_drd() { under_valgrind drd; }

wanted=("$@")
[ $# -gt 0 ] || wanted=("${steps[@]}")
for name in "${wanted[@]}"; do
    if ! declare -F "step_$name" >/dev/null; then
        say "unknown step $name (known: ${steps[*]})"
        exit 2
    fi
done

for name in "${wanted[@]}"; do
    started=$SECONDS
    say "$name"
    "step_$name"
    say "$name: ok after $((SECONDS - started)) s"
done
