#!/usr/bin/env bash
# Checks that take long or need more tools: `bash ci/long.sh [STEP...]`. With no STEP all run.
#
# The first three build the tenant's package alone, in a folder of its own, because compiler flags
# change every package. valgrind hides the kernel's vDSO, which rustix reads unless it uses libc.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source ci/steps.sh

export CARGO_BUILD_JOBS="${CARGO_BUILD_JOBS:-2}"

plain_flags="${RUSTFLAGS:-}"
plain_target="${CARGO_TARGET_DIR:-target}"
export RUSTFLAGS="$plain_flags --cfg loom --cfg rustix_use_libc"
export CARGO_TARGET_DIR="$plain_target/long"

steps=(loom memcheck drd fuzz damage kills formats page scale fleets history machines statistics
    forged contention left profiles nights pairs dataset diff book python spark clients manifests
    slurm prometheus packages crates doc deny benches hardware aarch64)
package=(--locked -p gpubench-workloads)

# The count of committed rows, in every order of execution that the memory model allows.
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

# The harness as users get it, without the flags above.
plain() { RUSTFLAGS="$plain_flags" CARGO_TARGET_DIR="$plain_target" "$@"; }

# Every fuzz target for ten minutes. GPUBENCH_FUZZ_MS sets another time.
step_fuzz() {
    BOLERO_RANDOM_TEST_TIME_MS="${GPUBENCH_FUZZ_MS:-600000}" plain \
        timeout --kill-after=30 120m cargo test --release --locked --workspace \
        --test fuzz -- --test-threads 2
}

# The campaigns of `gpubench-ci torture`. GPUBENCH_SEED begins with another case.
torture() {
    local program
    program=$(built)
    plain cargo run --release --locked --quiet -p gpubench-ci -- torture \
        --binary "$program" --seed "${GPUBENCH_SEED:-1}" "$@"
}

# 2,000 damaged records and 1,000 damaged inputs.
step_damage() { torture --records 2000 --inputs 1000; }

# Hours of kills: about 1,000 cases.
step_kills() { torture --minutes "${GPUBENCH_KILL_MINUTES:-120}"; }

# What the binary writes, read by programs of others, with promtool.
step_formats() {
    GPUBENCH_REQUIRE_PROMTOOL=1 plain bash ci/test.sh readers
}

# The pages of a smoke run and of the record of an H100 in a real browser.
step_page() (
    bash ci/install-page.sh
    plain cargo build --locked --release --quiet
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/gpubench-page.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    program="$plain_target/release/gpubench"
    "$program" matrix --device virtual --profile smoke --out "$scratch/smoke" >/dev/null
    "$program" report reports/examples/h100_580.159.04_matrix --format html \
        --output "$scratch/h100.html"
    # A night against the one before, and the comparison alone.
    "$program" matrix --device virtual --profile smoke --seed 2 --out "$scratch/second" >/dev/null
    "$program" report "$scratch/smoke" "$scratch/second" --format html --output "$scratch/two.html"
    "$program" diff "$scratch/smoke" "$scratch/second" --advisory --format html \
        --output "$scratch/diff.html"
    "$program" history "$scratch/smoke" "$scratch/second" --format html \
        --output "$scratch/history.html"
    timeout --kill-after=30 20m python3 ci/check_choose.py "$program" reports/examples/h*/
    timeout --kill-after=30 10m python3 ci/check_choose.py --page --sets 1000 "$program" \
        reports/examples/h100_580.159.04_matrix
    timeout --kill-after=30 5m python3 ci/check_page.py --axe target/page/axe.min.js \
        "$scratch"/smoke/report.html "$scratch"/*.html
)

# Two records with 20 million samples: `report` and `diff` beside DuckDB.
step_scale() {
    local scratch status=0
    bash ci/install-readers.sh
    plain cargo build --locked --release --quiet
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/gpubench-scale.XXXXXX")
    "$plain_target/release/gpubench" matrix --device virtual --profile smoke \
        --out "$scratch/smoke" >/dev/null
    timeout --kill-after=30 30m target/readers/bin/python ci/check_scale.py \
        "$plain_target/release/gpubench" "$scratch/smoke" || status=$?
    rm -rf "$scratch"
    return "$status"
}

# 1,000 simulated fleets of 1,000 GPUs, healthy and with a sick one; every change simulates fewer.
# Prints how many sick GPUs are found, and how many healthy fleets raise an alarm, by spread.
step_fleets() {
    GPUBENCH_FLEETS=1000 plain cargo test --locked --release --workspace --lib \
        outliers::tests::healthy -- --nocapture
}

# 365 nights and a fleet of 1,000 GPUs by the release binary: time, memory, and what is found. It
# needs 10 GB of disk for a while.
step_history() (
    plain cargo build --locked --release --quiet
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/gpubench-history.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    python3 -m doctest ci/check_history.py
    program=$(realpath "$plain_target/release/gpubench")
    "$program" matrix --device virtual --out "$scratch/base" >/dev/null
    timeout --kill-after=30 30m python3 ci/check_history.py "$program" "$scratch"
)

# Runs one test of the built binary in the release profile, with its output.
one_test() {
    plain timeout --kill-after=30 120m cargo test --release --locked --workspace \
        --test it -- --exact --nocapture "$1"
}

# 40 random machine files measured whole: how often planted retention, jitter and containment of
# faults lie in the printed intervals, and wrong levels. GPUBENCH_MACHINES=7-7 measures one seed
# again.
step_machines() {
    GPUBENCH_MACHINES="${GPUBENCH_MACHINES:-1-40}" \
        one_test machines::random_machines_have_their_planted_values_and_levels
}

# The simulated campaigns of the statistics whole, of which every change runs a part; and 200 whole
# runs with a planted value.
step_statistics() {
    GPUBENCH_WHOLE=1 PROPTEST_CASES="${PROPTEST_CASES:-1000}" plain \
        timeout --kill-after=30 120m cargo test --release --locked --lib -p gpubench-compare \
        -p gpubench-judge -p gpubench-plan -p gpubench-stats
    GPUBENCH_WHOLE=1 one_test \
        planted::the_planted_value_lies_in_the_interval_as_often_as_the_interval_says
    GPUBENCH_WHOLE=1 one_test \
        diffs::planted_changes_of_a_driver_have_their_exit_status_row_and_hint
}

# Every value of a record forged once: each is refused, named or scored again.
step_forged() {
    GPUBENCH_FORGED=all \
        one_test integrity::a_record_with_one_forged_value_is_refused_named_or_scored_again
}

# Whole runs with a planted loss: how often `diff` finds it. GPUBENCH_GROUPS (30) sets how many
# comparisons; GPUBENCH_DIFF names a folder that keeps the sessions.
step_diff() (
    program=$(built)
    python3 -m doctest ci/check_diff.py
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/gpubench-diff.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    timeout --kill-after=30 12h python3 ci/check_diff.py "$program" \
        "${GPUBENCH_DIFF:-$scratch}" "${GPUBENCH_GROUPS:-30}"
)

# Runs on the wall clock beside another process that takes 2, 5 and 20 % of each core. For an idle
# host.
step_contention() {
    GPUBENCH_CPU_TAKEN="${GPUBENCH_CPU_TAKEN:-2 5 20}" \
        one_test cpu_contention::no_decided_row_is_wrong_beside_another_process
}

# The time left that a terminal shows, at each tenth of six runs. For an idle host.
step_left() {
    local program
    python3 -m doctest ci/check_time_left.py
    program=$(built)
    timeout --kill-after=30 30m python3 ci/check_time_left.py "$program" \
        default depth equal shares pairs transients
}

# Every shipped profile whole on the virtual GPU: its wall time, cells measured and rows decided.
# GPUBENCH_PROFILES names some of them.
step_profiles() {
    plain cargo build --release --locked
    local profile program="$plain_target/release/gpubench" out
    out=$(mktemp -d "${TMPDIR:-/tmp}/gpubench-profiles.XXXXXX")
    local all=(smoke default scaling claims online-inference batch-training oversubscription
        notebooks saas-hostile student-lab nightly weekly)
    for profile in ${GPUBENCH_PROFILES:-${all[*]}}; do
        local from=$SECONDS status=0
        "$program" matrix --device virtual --profile "$profile" --out "$out/$profile" \
            >"$out/$profile.log" 2>&1 || status=$?
        if [ "$status" != 0 ]; then
            say "$profile ended with status $status: $out/$profile.log"
            return 1
        fi
        python3 ci/count_verdicts.py "$out/$profile" $((SECONDS - from))
        rm -rf "${out:?}/$profile"
    done
    rm -rf "$out"
}

# The release binary, for scripts of other folders.
built() {
    plain cargo build --locked --release --quiet
    realpath "$plain_target/release/gpubench"
}

# Every command of the book, its pictures, and the book itself in target/book/html.
step_book() {
    local program
    sh ci/install-book.sh
    bash ci/install-page.sh
    program=$(built)
    timeout --kill-after=30 60m python3 ci/book.py run --all "$program"
    timeout --kill-after=30 10m target/book/py/bin/python ci/book_pictures.py "$program"
    python3 ci/book.py build "$program" target/book/bin/mdbook target/book/built
}

# The Python reader of records against the program's own figures, its types, its wheel, and the
# notebook that makes the table of the README from raw samples.
step_python() (
    sh ci/install-book.sh
    GPUBENCH=$(built)
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/gpubench-python.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    GPUBENCH_RECORD="$scratch/rec"
    export GPUBENCH GPUBENCH_RECORD
    "$GPUBENCH" matrix --quiet --device virtual --axis compute,bandwidth --allow-reconfigure \
        --mechanism time-slicing,mps,mps-quota,mig --out "$GPUBENCH_RECORD" >/dev/null
    python=$(realpath target/book/py/bin/python)
    "$python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$scratch" \
        reports/python
    "$python" -m pip install --quiet --no-deps --force-reinstall "$scratch"/gpubench-*.whl
    rm -rf reports/python/build reports/python/gpubench.egg-info
    cd reports/python
    "$python" -m mypy --cache-dir "$scratch/mypy"
    "$python" -m doctest gpubench/figures.py
    (cd tests && timeout --kill-after=30 10m "$python" -m pytest --quiet -p no:cacheprovider .)
    timeout --kill-after=30 10m "$python" run_notebook.py readme.ipynb
)

# The queries of the guide in Spark's local mode, beside DuckDB.
step_spark() {
    local program
    sh ci/install-spark.sh
    program=$(built)
    target/spark/bin/python -m doctest ci/check_spark.py
    timeout --kill-after=30 10m target/spark/bin/python ci/check_spark.py "$program"
}

# 20 nights on the virtual GPU with a changed driver on night 15.
step_nights() {
    local program
    program=$(built)
    GPUBENCH="$program" timeout --kill-after=30 30m bash ci/nightly/rehearse.sh
}

# How often a night is red: 40 times three nights with a driver and three with the next, without a
# change, and 10 times with a loss of 5 %.
step_pairs() {
    local program
    program=$(built)
    timeout --kill-after=30 60m python3 ci/check_nights.py "$program"
}

# 600 records into a dataset, and `history` and the guide's queries on one of 100,000 nights.
step_dataset() {
    local program
    bash ci/install-readers.sh
    program=$(built)
    timeout --kill-after=30 30m target/readers/bin/python ci/check_dataset.py "$program"
}

# Programs of others that are large or compiled for the run, on the virtual GPU: numba and PyCUDA.
step_clients() {
    local program machine
    plain sh ci/install-long-clients.sh
    program=$(built)
    for machine in turing hopper; do
        for client in numba pycuda; do
            timeout --kill-after=30 10m "$program" virtual-gpu exec --machine "$machine" -- \
                target/long-clients/bin/python "ci/conformance_$client.py"
        done
    done
}

# The manifests of ci/kubernetes and what `advise --config` and `choose --config` write,
# against the schemas of several versions of Kubernetes.
step_manifests() {
    local program
    bash ci/install-manifests.sh
    target/manifests/bin/python -m doctest ci/check_manifests.py
    program=$(built)
    timeout --kill-after=30 10m target/manifests/bin/python ci/check_manifests.py "$program"
}

# An array of jobs and its reducer under Debian's Slurm, with a node that is killed.
step_slurm() {
    local program
    sh ci/install-slurm.sh
    program=$(built)
    GPUBENCH="$program" timeout --kill-after=30 20m bash ci/slurm/rehearse.sh
}

# Metrics, dashboard and alerts with Debian's Prometheus and node exporter.
step_prometheus() {
    local program
    sh ci/install-prometheus.sh
    python3 -m doctest ci/check_dashboard.py
    program=$(built)
    timeout --kill-after=30 10m python3 ci/check_dashboard.py "$program"
}

# Archive, deb, container file and bill of materials, built for glibc 2.28 and run in clean roots.
# Needs root.
step_packages() (
    plain sh ci/install-packages.sh
    plain bash ci/packages/build.sh
    plain bash ci/packages/check.sh
    # From the packed sources, as users of cargo do it.
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/gpubench-install.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    tar --extract --file target/dist/gpubench-*-src.tar.gz --directory "$scratch"
    plain cargo install --path "$scratch"/gpubench-*/harness --locked --quiet --no-track \
        --root "$scratch"
    "$scratch/bin/gpubench" matrix --device virtual --profile smoke --quiet --out "$scratch/run"
)

# The packages that are published, each packed and compiled from its archive.
step_crates() {
    local list
    list=$(git grep -l '^publish = true' -- '*Cargo.toml' |
        xargs -n 1 sed -n '/^\[package\]/,/^$/s/^name = "\(.*\)"$/\1/p')
    # shellcheck disable=SC2086
    plain cargo package --locked $(printf ' --package %s' $list)
}

# The documentation of every package, private items too, without a warning.
step_doc() {
    RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" \
        plain cargo doc --release --locked --workspace --no-deps --document-private-items
}

# Licences, sources and versions of all dependencies, by deny.toml.
step_deny() {
    plain sh ci/install-deny.sh
    PATH="$PWD/target/deny/bin:$PATH"
    cargo deny --config ci/deny.toml check bans licenses sources
    # A workspace of its own has fewer of the licences.
    (cd harness/virtual-gpu && cargo deny --config ../../ci/deny.toml check \
        --allow license-not-encountered bans licenses sources)
}

# What becomes of a record, held to its baseline in times of a plain parse. For an idle host.
step_benches() {
    python3 -m doctest ci/check_benches.py
    rm -rf "$plain_target/criterion"
    plain cargo bench --locked -p gpubench --bench record -- --noplot
    python3 ci/check_benches.py "$plain_target/criterion" ci/benches.txt
}

# What is run on hardware that is there for 30, 9 and 3 minutes, on the virtual H100. It prints the
# status, time and size of each step.
step_hardware() (
    program=$(built)
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/gpubench-day.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    for part in "30" "9" "3 --from kernels"; do
        # shellcheck disable=SC2086 # minutes, and perhaps an option
        GPUBENCH="$program" timeout --kill-after=30 45m bash ci/hardware/day.sh --minutes $part \
            --device virtual:h100-80 "$scratch/${part%% *}"
        tar --create --xz --directory "$scratch" "${part%% *}" | wc --bytes
    done
)

# The program and the tests of the pure packages for 64-bit ARM, these run by user-mode emulation.
# Skipped by name without the Rust target, Debian's cross linker, or the emulator.
step_aarch64() {
    local target=aarch64-unknown-linux-gnu linker=aarch64-linux-gnu-gcc
    local name=CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU list
    if ! rustc --print target-libdir --target "$target" | xargs test -d; then
        say "skipped: no Rust target $target"
        return
    fi
    if ! command -v "$linker" >/dev/null; then
        say "skipped: no $linker (Debian: gcc-aarch64-linux-gnu)"
        return
    fi
    export "${name}_LINKER=$linker" "${name}_RUNNER=qemu-aarch64 -L /usr/aarch64-linux-gnu"
    plain cargo build --locked --release --target "$target"
    if ! command -v qemu-aarch64 >/dev/null; then
        say "tests skipped: no qemu-aarch64 (Debian: qemu-user)"
        return
    fi
    list=$(printf ' --package gpubench-%s' record stats catalogue plan judge)
    # shellcheck disable=SC2086 # a list of options
    plain timeout --kill-after=30 60m cargo test --locked --release --target "$target" --lib $list
    if [ -x target/packages/bin/cargo-zigbuild ]; then
        GPUBENCH_TARGET=$target plain bash ci/packages/build.sh
    else
        say "packages skipped: their programs come with the step packages"
    fi
}

choose_steps "$@"
for name in "${wanted[@]}"; do
    run_step "$name"
done
