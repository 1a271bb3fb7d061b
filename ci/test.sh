#!/usr/bin/env bash
# Every check of the repository, in order, without a GPU: `bash ci/test.sh [STEP...]`.
#
# With no STEP all of them run. Everything is built in the release profile and with the features of
# the whole workspace: dependencies are compiled once, and tests run the binary that users get.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# More jobs would exceed the memory of a small runner.
export CARGO_BUILD_JOBS="${CARGO_BUILD_JOBS:-2}"

# The shared object form of the virtual GPU is built by the package that embeds it.
packages=(--locked --workspace --exclude 'gpubench-virtual-gpu*-so')
steps=(fmt clippy oracles tests tidy dummies msrv ptx smoke clients)

say() { printf '== %s\n' "$*"; }

# A folder of its own per run, removed at every exit.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/gpubench-test.XXXXXX")
current=none
finish() {
    local status=$?
    rm -rf "$scratch"
    [ "$status" = 0 ] || say "FAILED (status $status), step: $current"
}
trap finish EXIT

# Runs a command with a time limit: a command that hangs fails, and its name is printed.
bounded() {
    local limit=$1 status=0
    shift
    timeout --kill-after=30 "$limit" "$@" || status=$?
    [ "$status" != 124 ] || say "ended after $limit: $*"
    return "$status"
}

# The folder of built programs.
built() { printf '%s/release' "${CARGO_TARGET_DIR:-target}"; }

task() {
    cargo build --release --quiet "${packages[@]}" --bin gpubench-ci
    bounded 30m "$(built)/gpubench-ci" "$@"
}

# Runs a script of this repository; a missing script fails the step.
script() {
    [ -f "$1" ] || { say "missing: $1"; return 1; }
    bash "$@"
}

step_fmt() { task fmt; }

step_clippy() { cargo clippy --release "${packages[@]}" --all-targets -- -D warnings; }

# The reference programs that some tests compare with. After this step a test that does not find
# them fails.
step_oracles() {
    script ci/install-oracles.sh
    export GPUBENCH_REQUIRE_ORACLES=1
    python3 -m doctest ci/check_speed.py ci/operator_schema.py
    check_speed
}

# The simulator against the NumPy program: equal figures, and the required speed. It runs before
# the tests, with no other load.
check_speed() {
    cargo build --release --quiet "${packages[@]}" --example whole_process
    target/oracles/bin/python ci/check_speed.py "$(built)/examples/whole_process"
}

step_tests() {
    if cargo nextest --version >/dev/null 2>&1; then
        # Many tests wait most of the time, for limits of gpubench and for runs on the wall clock.
        NEXTEST_TEST_THREADS="${NEXTEST_TEST_THREADS:-$((2 * $(nproc)))}" \
            cargo nextest run --release "${packages[@]}"
        # nextest does not run the examples in documentation, which few packages have.
        local package
        for package in $(documented); do
            bounded 20m cargo test --release --locked --doc --package "$package"
        done
    else
        # Unlike nextest it ends no single test that hangs.
        bounded 60m cargo test --release "${packages[@]}"
    fi
}

# The packages with examples in their documentation, by the nearest Cargo.toml.
documented() {
    local file folder
    git grep -lE '^ *//[/!] ```' -- '*.rs' | while read -r file; do
        folder=$(dirname "$file")
        while [ ! -f "$folder/Cargo.toml" ]; do folder=$(dirname "$folder"); done
        sed -n '/^\[package\]/,/^\[/s/^name = "\(.*\)"$/\1/p' "$folder/Cargo.toml"
    done | sort -u
}

step_tidy() { task tidy; }

# Follows the table "Where do I put" of the map in a copy of the tree, and compiles the copy.
step_dummies() { task dummies; }

# GPUBENCH_EXACT_MSRV=1 demands the pinned compiler; without it a newer one is accepted and named.
step_msrv() {
    if [ "${GPUBENCH_EXACT_MSRV:-0}" = 1 ]; then task msrv; else task msrv --or-newer; fi
}

# The device code, compiled again: the result must equal the checked-in PTX byte for byte.
step_ptx() {
    script ci/install-cuda-wheels.sh
    task ptx --check
}

# The main job from end to end, as a new user runs it, and its report.
step_smoke() {
    local out="$scratch/smoke"
    # First the tests of the check itself, which are quick.
    python3 -m doctest ci/check_smoke.py
    cargo build --locked --release
    bounded 10m cargo run --locked --release -- matrix --device virtual --profile smoke --out "$out"
    cargo run --locked --release --quiet -- report "$out" --format json >"$scratch/smoke.json"
    python3 ci/check_smoke.py "$scratch/smoke.json"
}

# Unmodified programs of others on the virtual GPU: they must print the values of the machine file.
step_clients() {
    script ci/install-clients.sh
    cc -Wall -Werror -o "$scratch/driver" ci/conformance_driver.c -ldl
    cargo build --locked --release --quiet
    local machine
    for machine in turing hopper; do
        on_virtual "$machine" target/clients/bin/python ci/conformance_nvml.py
        on_virtual "$machine" target/clients/bin/python ci/conformance_cuda.py
        on_virtual "$machine" "$scratch/driver" kernels/ptx/pattern_fill.ptx
    done
    victim
}

# Runs a program on a virtual GPU of its own.
on_virtual() {
    local machine=$1
    shift
    bounded 10m cargo run --locked --release --quiet -- \
        virtual-gpu exec --machine "$machine" -- "$@"
}

# A user's program as the victim, end to end: on NVIDIA's Python bindings, under every mechanism of
# the catalogue; mechanisms of threads are waived. It takes three minutes, mostly waits.
victim() {
    local command="target/clients/bin/python workloads/examples/victim.py"
    local known="$scratch/mechanisms.json"
    python3 -m doctest ci/check_victim.py
    cargo run --locked --release --quiet -- list mechanisms --format json >"$known"
    bounded 15m cargo run --locked --release --quiet -- matrix --device virtual \
        --victim-cmd "$command" --profile harness/tests/it/data/user_victim_proofs.toml \
        --allow-reconfigure --out "$scratch/victim" >/dev/null
    python3 ci/check_victim.py "$scratch/victim/record.json" "$known"
}

# Runs one step and prints its duration. It is not called in a condition: there a function continues
# after a failing command.
run_step() {
    local name=$1 started=$SECONDS
    current="$name"
    say "$name"
    "step_$name"
    say "$name: ok after $((SECONDS - started)) s"
}

wanted=("$@")
[ $# -gt 0 ] || wanted=("${steps[@]}")
for name in "${wanted[@]}"; do
    if ! declare -F "step_$name" >/dev/null; then
        say "unknown step $name (known: ${steps[*]})"
        exit 2
    fi
done

# The clients mostly wait: they run beside the steps after the tests, and their output follows.
beside=
for name in "${wanted[@]}"; do
    [ "$name" != clients ] || [ -z "$beside" ] || continue
    run_step "$name"
    if [ "$name" = tests ] && [[ " ${wanted[*]} " = *" clients "* ]]; then
        run_step clients >"$scratch/clients.log" 2>&1 &
        beside=$!
    fi
done
if [ -n "$beside" ]; then
    status=0
    wait "$beside" || status=$?
    cat "$scratch/clients.log"
    current=clients
    [ "$status" = 0 ] || exit "$status"
fi
say "all ok after $SECONDS s"
