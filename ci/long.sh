#!/usr/bin/env bash
# Checks that take long or need more tools: `bash ci/long.sh [STEP...]`. With no STEP all of them run.
#
# They build the tenant's package alone, in the development profile, in folders of their own: a
# compiler flag changes every package.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CARGO_BUILD_JOBS="${CARGO_BUILD_JOBS:-2}"

steps=(loom memcheck drd)
target="${CARGO_TARGET_DIR:-target}"

say() { printf '== %s\n' "$*"; }

# The ring between issuer and reaper and the count of committed rows, in every order of execution
# that the memory model allows.
step_loom() {
    RUSTFLAGS="${RUSTFLAGS:-} --cfg loom" CARGO_TARGET_DIR="$target/loom" \
        timeout --kill-after=30 10m cargo test --locked --quiet -p gpubench-workloads --test loom
}

# The tests of the tenant's hot path: generator, sample log, tokens between threads.
hot_path=(generator:: log:: clock::token clock::wall)

# Runs these tests under a tool of valgrind, which ends with status 1 after an error.
under_valgrind() {
    local tool=$1 test_binary
    shift
    command -v valgrind >/dev/null || { say "valgrind is needed"; return 1; }
    test_binary=$(CARGO_TARGET_DIR="$target/valgrind" cargo test --locked -p gpubench-workloads \
        --lib --no-run --message-format=json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
    timeout --kill-after=30 20m valgrind --tool="$tool" --error-exitcode=1 --quiet \
        --suppressions="ci/valgrind.supp" "$@" "$test_binary" --test-threads=1 "${hot_path[@]}"
}

# Reads of memory that is not initialised or not owned, and lost blocks.
step_memcheck() { under_valgrind memcheck --leak-check=full --errors-for-leak-kinds=definite; }

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
