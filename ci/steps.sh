# Steps of a script, one function `step_NAME` each. Sourced by `test.sh` and `long.sh`.
# shellcheck shell=bash

say() { printf '== %s\n' "$*"; }

# Sets `wanted` to the arguments, or to all of `steps` where there are none. Refuses an unknown step
# before the first one runs.
choose_steps() {
    wanted=("$@")
    [ $# -gt 0 ] || wanted=("${steps[@]}")
    local name
    for name in "${wanted[@]}"; do
        if ! declare -F "step_$name" >/dev/null; then
            say "unknown step $name (known: ${steps[*]})"
            exit 2
        fi
    done
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
