#!/usr/bin/env bash
# Rehearses `gpubench nightly` and driver-upgrade.sh on the virtual GPU.
#
# nights: 20 nights, and on night 15 a driver whose MIG no longer protects DRAM bandwidth. Nights 1
# to 10 pass with nothing to compare with, which must be visible, nights 11 to 14 pass, and night 15
# or 16 must end with 30 and name that row. Then history ends with 30 and names the driver.
#
# upgrade: three sessions with the old driver, and three after each of two upgrades. One changes
# nothing and must end with 0, the other is that of night 15 and must end with 30 and name the row.
# With one session a side the comparison must be inconclusive and name its rows.
#
#     bash ci/nightly/rehearse.sh [nights|upgrade|all [FOLDER]]
#
# GPUBENCH is the program. Without FOLDER everything is written to a folder that is removed again.
# Each night and session has a machine file with noise of its own, because one seed gives the same
# figures.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")

gpubench=${GPUBENCH:-gpubench}
nights=20
changed=15
compared=11
row="mig[3g+3g] bandwidth/dram"
# The same in the Markdown of a comparison.
labelled="mig 3g+3g bandwidth/dram"
leak="mig_dram_leak = 0.5"
old_driver=615.00.virtual
new_driver=620.00.virtual
part=${1:-all}
case $part in
nights | upgrade | all) ;;
*)
    echo "usage: rehearse.sh [nights|upgrade|all [FOLDER]]" >&2
    exit 2
    ;;
esac
if [ $# -gt 1 ]; then
    folder=$2
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

# A machine file: noise by a number, a driver, and where wanted the defect.
machine() {
    local noise=$1 driver=$2 defect=${3:-} file="$folder/machine-$1.toml"
    "$gpubench" virtual-gpu show hopper >"$file"
    replaced 'epoch_ms = 500' "epoch_ms = $((480 + noise))" "$file"
    replaced "driver = \"$old_driver\"" "driver = \"$driver\"" "$file"
    [ -z "$defect" ] || printf '\n[defects]\n%s\n' "$defect" >>"$file"
    echo "$file"
}

# The machine of a night.
machine_of() {
    if [ "$1" -ge "$changed" ]; then
        machine "$1" "$new_driver" "$leak"
    else
        machine "$1" "$old_driver"
    fi
}

# How the last line of a night must begin.
expected() {
    if [ "$1" -lt "$compared" ]; then
        echo "passed with a warning (0): measured, and compared with nothing: "
    elif [ "$1" -lt "$changed" ]; then
        echo "passed (0): "
    else
        echo "regressed (30): isolation got worse: $row "
    fi
}

rehearse_nights() {
    local first=() night log status last wanted
    for night in $(seq "$nights"); do
        log="$folder/night-$night.log"
        status=0
        GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY="$folder/summary.md" "$gpubench" nightly \
            "$folder/nights" --profile "$here/rehearsal.toml" --reports "$folder/out" \
            --device "virtual:$(machine_of "$night")" --allow-reconfigure "${first[@]}" \
            >"$log" 2>&1 || status=$?
        [ "$night" -gt 1 ] || first=(--calibration "$(echo "$folder"/nights/2*)")
        last=$(tail -n 1 "$log")
        printf 'night %2d: %s\n' "$night" "${last#nightly: }"
        wanted=$(expected "$night")
        case "$night $last" in
        *" nightly: $wanted"*) ;;
        # The first night with the new driver may still be undecided.
        "$changed nightly: passed with a warning (0): "*"undecided: $row"*) continue ;;
        *)
            cat "$log" >&2
            fail "it is not $wanted"
            ;;
        esac
        [[ $last != *"; "*" bandwidth/"* ]] || fail "another row is named: $last"
        [ "$night" -ge "$compared" ] || grep -q '^::warning title=gpubench passed::' "$log" ||
            fail "the warning is not visible in the log"
        [ "$night" -lt "$changed" ] || [ "$status" = 30 ] || fail "it ended with status $status"
        grep -qF "**${last#nightly: }**" "$folder/summary.md" || fail "the summary has no verdict"
    done
    status=0
    "$gpubench" history "$folder/nights" --output "$folder/history.txt" || status=$?
    head -n 1 "$folder/history.txt"
    [ "$status" = 30 ] || fail "history ended with status $status"
    grep -q "^REGRESSED: driver $old_driver -> $new_driver, worse: mig" "$folder/history.txt" ||
        fail "the first line of history does not name the driver"
}

# One call of driver-upgrade.sh, on a machine; what it printed is in the log.
upgrade() {
    local machine=$1 sessions=$2
    shift 2
    log="$folder/upgrade.log"
    status=0
    GPUBENCH="$gpubench" GPUBENCH_PROFILE="$here/rehearsal.toml" GPUBENCH_SESSIONS="$sessions" \
        GPUBENCH_DEVICE="virtual:$machine" GITHUB_ACTIONS=true \
        bash "$here/driver-upgrade.sh" "$@" >"$log" 2>&1 || status=$?
    last=$(tail -n 1 "$log")
}

# What the last call must have ended with: its status, and how its last line goes on.
ended() {
    if [ "$status" != "$1" ] || [[ $last != "$2"* ]]; then
        cat "$log" >&2
        fail "upgrade: status $status and not $1, or not: $2"
    fi
    printf 'upgrade: %s\n' "${last#driver-upgrade: }"
}

rehearse_upgrade() {
    local before="$folder/harmless" after="$folder/leak" log status last session
    upgrade absent 3 "$before" after
    ended 2 "driver-upgrade: $before/before has no session"
    # Each session is a call, which goes on where the one before it stopped.
    for session in 1 2 3; do
        upgrade "$(machine "$((20 + session))" "$old_driver")" "$session" "$before" before \
            --allow-reconfigure
        ended 0 "driver-upgrade: before $session of $session"
    done
    mkdir -p "$after"
    cp -r "$before/before" "$after"
    for session in 1 2 3; do
        upgrade "$(machine "$((30 + session))" "$new_driver")" "$session" "$before" after \
            --allow-reconfigure
    done
    ended 0 "driver-upgrade: unchanged (status 0): "
    for session in 1 2 3; do
        upgrade "$(machine "$((40 + session))" "$new_driver" "$leak")" "$session" "$after" after \
            --allow-reconfigure
        [ "$session" != 1 ] ||
            ended 10 "driver-upgrade: inconclusive (status 10): $labelled"
    done
    ended 30 "driver-upgrade: REGRESSED (status 30): $labelled"
    [[ $last != *";"* ]] || fail "another row is named: $last"
    grep -q "^::error title=gpubench driver upgrade::REGRESSED: mig" "$log" ||
        fail "the red upgrade is not visible in the log"
    upgrade absent 3 "$after" diff
    ended 30 "driver-upgrade: REGRESSED (status 30): $labelled"
}

[ "$part" = upgrade ] || rehearse_nights
[ "$part" = nights ] || rehearse_upgrade
