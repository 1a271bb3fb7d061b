#!/usr/bin/env bash
# Rehearses nightly.sh on the virtual GPU: 20 nights, and on night 15 a driver whose MIG no longer
# protects DRAM bandwidth. Nights 1 to 10 have nothing to compare with and must show a warning,
# nights 11 to 14 must be green, and night 15 or 16 must be red and name that row.
#
#     bash ci/nightly/rehearse.sh [FOLDER]
#
# GPUBENCH is the program. Without FOLDER everything is written to a folder that is removed again.
# Each night has a machine file with noise of its own, because one seed gives the same figures.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")

gpubench=${GPUBENCH:-gpubench}
nights=20
changed=15
compared=11
row="mig[3g+3g] bandwidth/dram"
if [ $# -gt 0 ]; then
    folder=$1
    mkdir -p "$folder"
else
    folder=$(mktemp -d "${TMPDIR:-/tmp}/gpubench-nights.XXXXXX")
    trap 'rm -rf "$folder"' EXIT
fi

fail() {
    printf 'rehearse: FAILED: %s\n' "$*" >&2
    exit 1
}

# Replaces one line of a machine file, which must be there.
replaced() {
    grep -qxF "$1" "$3" || fail "the machine file has no line $1"
    sed -i "s/^$1\$/$2/" "$3"
}

# The machine of a night: noise of its own, and from the changed night on another driver.
machine_of() {
    local night=$1 file="$folder/machine-$1.toml"
    "$gpubench" virtual-gpu show hopper >"$file"
    replaced 'epoch_ms = 500' "epoch_ms = $((480 + night))" "$file"
    if [ "$night" -ge "$changed" ]; then
        replaced 'driver = "615.00.virtual"' 'driver = "620.00.virtual"' "$file"
        printf '\n[defects]\nmig_dram_leak = 0.5\n' >>"$file"
    fi
    echo "$file"
}

# What a night must end with.
expected() {
    if [ "$1" -lt "$compared" ]; then
        echo warning
    elif [ "$1" -lt "$changed" ]; then
        echo green
    else
        echo red
    fi
}

first=()
for night in $(seq "$nights"); do
    log="$folder/night-$night.log"
    status=0
    GPUBENCH="$gpubench" GPUBENCH_PROFILE="$here/rehearsal.toml" GPUBENCH_NIGHTS="$folder/nights" \
        GPUBENCH_DEVICE="virtual:$(machine_of "$night")" GPUBENCH_OUT="$folder/out" \
        GPUBENCH_SUMMARY="$folder/summary-$night.md" GPUBENCH_LOCK="$folder/lock" \
        GITHUB_ACTIONS=true \
        bash "$here/nightly.sh" --allow-reconfigure "${first[@]}" >"$log" 2>&1 || status=$?
    [ "$night" -gt 1 ] || first=(--calibration "$(echo "$folder"/nights/2*)")
    last=$(tail -n 1 "$log")
    printf 'night %2d: %s\n' "$night" "${last#nightly: }"
    wanted=$(expected "$night")
    case $last in
    "nightly: $wanted "*) ;;
    # The first night with the new driver may still be undecided.
    "nightly: warning (status 10)"*) [ "$night" = "$changed" ] || fail "it is not $wanted: $log" ;;
    *)
        cat "$log" >&2
        fail "it is not $wanted"
        ;;
    esac
    case $wanted in
    warning)
        [ "$status" = 0 ] || fail "a warning ended with status $status"
        grep -q '^::warning title=gpubench warning::not compared: ' "$log" ||
            fail "the warning is not visible in the log"
        grep -q '^\*\*warning\*\* (status 20)' "$folder/summary-$night.md" ||
            fail "the warning is not in the summary"
        ;;
    green) [ "$status" = 0 ] || fail "a green night ended with status $status" ;;
    red)
        [ "$status" = 30 ] || [ "$night" = "$changed" ] || fail "a red night ended with $status"
        [[ $last = *"worse: $row"* || $night = "$changed" ]] || fail "the row is not named: $last"
        [[ $last != *";"* ]] || fail "another row is named: $last"
        ;;
    esac
done
printf 'rehearse: the summary of night %s:\n' "$((changed + 1))"
cat "$folder/summary-$((changed + 1)).md"
