#!/usr/bin/env bash
# Every check of the repository, in order, without a GPU: `bash ci/test.sh [STEP...]`.
#
# With no STEP all of them run. Everything is built in the release profile and with the features of
# the whole workspace: dependencies are compiled once, and tests run the binary that users get.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source ci/steps.sh

# More jobs would exceed the memory of a small runner.
export CARGO_BUILD_JOBS="${CARGO_BUILD_JOBS:-2}"

packages=(--locked --workspace)
steps=(fmt clippy oracles build tests fuzz damage kills tidy dummies msrv ptx smoke hardware corpus
    fidelity book readers clients)

# A folder of its own per run, removed at every exit.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/gpubench-test.XXXXXX")
current=none
installing=()
finish() {
    local status=$?
    # An installation that is interrupted leaves half an environment behind.
    wait "${installing[@]}" || true
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

# Starts the installation of the programs that a step needs, beside the steps before it, because it
# mostly waits for the network.
install_for() {
    local name
    case $1 in
    oracles | clients | readers) name=$1 ;;
    ptx) name=cuda-wheels ;;
    *) return 0 ;;
    esac
    {
        status=0
        bounded 15m bash "ci/install-$name.sh" || status=$?
        echo "$status" >"$scratch/install-$name.status"
    } >"$scratch/install-$name.log" 2>&1 &
    installing+=($!)
}

# Waits for an installation and prints what it printed. Its status is in a file, because the step
# may run in a process of its own, which cannot wait for it.
installed() {
    until [ -s "$scratch/install-$1.status" ]; do sleep 0.1; done
    cat "$scratch/install-$1.log"
    return "$(cat "$scratch/install-$1.status")"
}

step_fmt() { task fmt; }

step_clippy() {
    cargo clippy --release "${packages[@]}" --all-targets -- -D warnings
    bash ci/virtual-gpu.sh lint
}

# The reference programs that some tests compare with. After this step a test that does not find
# them fails.
step_oracles() {
    installed oracles
    export GPUBENCH_REQUIRE_ORACLES=1
    python3 -m doctest ci/check_speed.py ci/operator_schema.py ci/count_verdicts.py \
        ci/check_dashboard.py ci/check_choose.py
    wait "${installing[@]}"
    check_speed
}

# The simulator against the NumPy program: equal figures, and the required speed. It runs before
# the tests, with no other load.
check_speed() {
    cargo build --release --quiet "${packages[@]}" --example whole_process
    target/oracles/bin/python ci/check_speed.py "$(built)/examples/whole_process"
}

# The tests and the product, so that no later step waits for a compiler.
step_build() {
    cargo test --release --no-run "${packages[@]}"
    cargo build --locked --release
    bash ci/virtual-gpu.sh build
}

step_tests() {
    # A part of the random cases: `bash ci/long.sh statistics` has more.
    export PROPTEST_CASES="${PROPTEST_CASES:-100}"
    if cargo nextest --version >/dev/null 2>&1; then
        # Most tests wait most of the time, for limits of gpubench and for runs on the wall clock.
        NEXTEST_TEST_THREADS="${NEXTEST_TEST_THREADS:-$((3 * $(nproc)))}" \
            cargo nextest run --release --run-ignored all "${packages[@]}"
        # nextest does not run the examples in documentation, which few packages have.
        local package
        for package in $(documented); do
            bounded 20m cargo test --release --locked --doc --package "$package"
        done
    else
        # Unlike nextest it ends no single test that hangs.
        bounded 60m cargo test --release "${packages[@]}"
    fi
    bash ci/virtual-gpu.sh tests
}

# Every reader of text or bytes of others: its corpus, and random inputs for 5 s each.
step_fuzz() {
    BOLERO_RANDOM_TEST_TIME_MS="${GPUBENCH_FUZZ_MS:-5000}" bounded 20m \
        cargo test --release "${packages[@]}" --test fuzz -- --test-threads 2
}

# Damaged records and inputs, each read by a verb of the built program.
step_damage() {
    cargo build --locked --release --quiet
    task torture --binary "$(built)/gpubench" --records 60 --inputs 60
}

# A minute of kills.
step_kills() {
    cargo build --locked --release --quiet
    task torture --binary "$(built)/gpubench" --minutes 1
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
# An older one is refused by cargo.
step_msrv() {
    local pinned used
    pinned=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    used=$(rustc --version | cut -d ' ' -f 2)
    case $used in
    "$pinned" | "$pinned".*) printf 'rustc %s is the pinned %s\n' "$used" "$pinned" ;;
    *)
        printf 'rustc %s is in use, %s is pinned and not tested\n' "$used" "$pinned"
        [ "${GPUBENCH_EXACT_MSRV:-0}" != 1 ]
        ;;
    esac
}

# The device code, compiled again: the result must equal the checked-in PTX byte for byte.
step_ptx() {
    installed cuda-wheels
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

# The first steps of ci/hardware/day.sh, as they run on hardware.
step_hardware() {
    cargo build --locked --release --quiet
    GPUBENCH="$(built)/gpubench" bounded 5m bash ci/hardware/day.sh --only facts,smoke \
        --device virtual:h100-80 "$scratch/day"
}

# What users see, byte for byte: a change of it is a changed line of ci/corpus/expected.txt.
step_corpus() {
    (cd ci && python3 -m doctest corpus.py corpus_run.py corpus_inputs.py)
    cargo build --locked --release --quiet
    bounded 10m python3 ci/corpus.py "$(built)/gpubench"
}

# The virtual GPU beside every record of hardware: the table that is checked in, and its reasons.
step_fidelity() {
    bounded 10m bash ci/fidelity.sh
}

# The commands of the book's short pages, and what they print.
step_book() {
    python3 -m doctest ci/book.py
    python3 ci/book.py check
    cargo build --locked --release --quiet
    bounded 10m python3 ci/book.py run "$(built)/gpubench"
}

# What the binary writes, read by programs of others: the record of the step before, or its own.
step_readers() {
    local out="$scratch/smoke"
    installed readers
    target/readers/bin/python -m doctest ci/check_formats.py ci/check_scale.py
    cargo build --locked --release --quiet
    [ -f "$out/record.json" ] ||
        bounded 10m "$(built)/gpubench" matrix --device virtual --profile smoke \
            --out "$out" >/dev/null
    bounded 10m target/readers/bin/python ci/check_formats.py "$(built)/gpubench" "$out"
    bounded 10m python3 ci/check_choose.py --sets 40 "$(built)/gpubench" reports/examples/h*/ "$out"
}

# Unmodified programs of others on the virtual GPU: they must print the values of the machine file.
step_clients() {
    installed clients
    cc -Wall -Werror -o "$scratch/driver" ci/conformance_driver.c -ldl
    cargo build --locked --release --quiet
    local machine headers
    headers=$(echo target/clients/lib/python3*/site-packages/nvidia/cu13/include)
    for machine in turing hopper; do
        # shellcheck disable=SC2016
        on_virtual "$machine" sh -ec 'cc -Wall -Werror -I "$1" -o "$2" ci/conformance_cuda13.c \
            -L "${LD_LIBRARY_PATH%%:*}" -lcuda; "$2" kernels/ptx/pattern_fill.ptx' \
            sh "$headers" "$scratch/cuda13"
        on_virtual "$machine" target/clients/bin/python ci/conformance_nvrtc.py
        on_virtual "$machine" target/clients/bin/python ci/conformance_nvml.py
        on_virtual "$machine" target/clients/bin/python ci/conformance_cuda.py
        on_virtual "$machine" target/clients/bin/python ci/conformance_core.py
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
    bounded 15m cargo run --locked --release --quiet -- matrix --device virtual:hopper \
        --victim-cmd "$command" --profile harness/tests/it/data/user_victim_proofs.toml \
        --allow-reconfigure --out "$scratch/victim" >/dev/null
    python3 ci/check_victim.py "$scratch/victim/record.json" "$known"
}

# Steps that mostly wait, each by the step behind which it starts, beside those that follow. What
# they print comes last.
declare -A beside=([build]=clients [tests]=kills)

# Whether this run has a step.
has() { [[ " ${wanted[*]} " = *" $1 "* ]]; }

choose_steps "$@"
for name in "${wanted[@]}"; do install_for "$name"; done

declare -A started=() ran=()
for name in "${wanted[@]}"; do
    [ -z "${started[$name]:-}" ] || continue
    run_step "$name"
    ran[$name]=1
    other=${beside[$name]:-}
    if [ -n "$other" ] && [ -z "${ran[$other]:-}" ] && has "$other"; then
        run_step "$other" >"$scratch/$other.log" 2>&1 &
        started[$other]=$!
    fi
done
for name in "${!started[@]}"; do
    status=0
    wait "${started[$name]}" || status=$?
    cat "$scratch/$name.log"
    current=$name
    [ "$status" = 0 ] || exit "$status"
done
say "all ok after $SECONDS s"
