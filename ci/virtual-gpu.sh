#!/usr/bin/env bash
# Every check of the virtual GPU, whose packages are a workspace of their own:
# `bash ci/virtual-gpu.sh [STEP...]`, with the steps lint, build and tests.
#
# `ci/test.sh` calls it. The build of `gpubench` uses the same target folder,
# harness/virtual-gpu/target, so what one compiles the other has.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../harness/virtual-gpu"
source ../../ci/steps.sh

unset CARGO_TARGET_DIR
# The shared objects are built without their tests, of which they have none.
packages=(--release --locked --workspace --exclude 'gpubench-virtual-gpu*-so')
steps=(lint build tests)

step_lint() { cargo clippy "${packages[@]}" --all-targets -- -D warnings; }

step_build() { cargo test --no-run "${packages[@]}"; }

step_tests() {
    if cargo nextest --version >/dev/null 2>&1; then
        NEXTEST_TEST_THREADS="${NEXTEST_TEST_THREADS:-$((3 * $(nproc)))}" \
            cargo nextest run --config-file ../../.config/nextest.toml --run-ignored all \
            "${packages[@]}"
    else
        timeout --kill-after=30 60m cargo test "${packages[@]}"
    fi
}

choose_steps "$@"
for name in "${wanted[@]}"; do run_step "$name"; done
