#!/usr/bin/env bash
# Did a driver upgrade change the isolation? Measures sessions before and after it, and compares.
#
#     bash ci/nightly/driver-upgrade.sh FOLDER before [FLAG OF gpubench matrix]...
#     ...upgrade the driver, reboot...
#     bash ci/nightly/driver-upgrade.sh FOLDER after [FLAG OF gpubench matrix]...
#     bash ci/nightly/driver-upgrade.sh FOLDER diff
#
# `after` ends with the comparison, so that `diff` only repeats it. A call that was interrupted goes
# on where it stopped. GPUBENCH, GPUBENCH_DEVICE and GPUBENCH_PROFILE are those of nightly.sh;
# GPUBENCH_SESSIONS is the number of sessions a side, 3 by default: with fewer no change is
# attributed. Ends with the status of `gpubench diff`.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/verdict.sh"

gpubench=${GPUBENCH:-gpubench}
profile=${GPUBENCH_PROFILE:-nightly}
sessions=${GPUBENCH_SESSIONS:-3}
device=()
[ -z "${GPUBENCH_DEVICE:-}" ] || device=(--device "$GPUBENCH_DEVICE")

usage() {
    echo "usage: driver-upgrade.sh FOLDER before|after|diff [FLAG OF gpubench matrix]..." >&2
    exit 2
}

# The sessions of a side that are missing, with the calibration of the first one of all: only
# victims that do the same work compare.
measure() {
    local side=$1 session record part calibration=()
    shift
    for session in $(seq "$sessions"); do
        record="$folder/$side/$session"
        [ ! -e "$record" ] || continue
        [ ! -e "$folder/before/1" ] || calibration=(--calibration "$folder/before/1")
        # Not beside the sessions: what a killed run left is no session.
        part="$folder/.part"
        rm -rf "$part"
        "$gpubench" matrix "${device[@]}" --profile "$profile" "${calibration[@]}" \
            --out "$part" "$@" >"$folder/$side-$session.txt"
        mv "$part" "$record"
        echo "driver-upgrade: $side $session of $sessions: $record"
    done
}

compare() {
    local status=0 reason
    # Where nothing can be compared, nothing is written.
    rm -f "$folder/upgrade.md"
    "$gpubench" diff --vary driver --format md --output "$folder/upgrade.md" \
        "$folder/before" -- "$folder/after" 2>"$folder/diff.err" || status=$?
    cat "$folder/diff.err" >&2
    [ ! -s "$folder/upgrade.md" ] || cat "$folder/upgrade.md"
    reason=$(reason_of "$status" "$folder/upgrade.md" "$folder/diff.err")
    annotate "$(verdict_of "$status")" "driver upgrade: $reason"
    printf 'driver-upgrade: %s (status %s): %s\n' "$(verdict_of "$status")" "$status" "$reason"
    exit "$status"
}

[ $# -ge 2 ] || usage
folder=$1
side=$2
shift 2
case $side in
before | after)
    mkdir -p "$folder/$side"
    if [ "$side" = after ] && [ ! -e "$folder/before/1" ]; then
        echo "driver-upgrade: $folder/before has no session: measure the side before first" >&2
        exit 2
    fi
    measure "$side" "$@"
    [ "$side" = before ] || compare
    ;;
diff) compare ;;
*) usage ;;
esac
