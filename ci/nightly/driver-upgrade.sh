#!/usr/bin/env bash
# Did a driver upgrade change the isolation? Measures sessions before and after it, and compares.
#
#     bash ci/nightly/driver-upgrade.sh FOLDER before [FLAG OF gpubench matrix]...
#     ...upgrade the driver, reboot...
#     bash ci/nightly/driver-upgrade.sh FOLDER after [FLAG OF gpubench matrix]...
#     bash ci/nightly/driver-upgrade.sh FOLDER diff
#
# `after` ends with the comparison, so that `diff` only repeats it. A call that was interrupted goes
# on where it stopped. GPUBENCH is the program, GPUBENCH_DEVICE its --device, GPUBENCH_PROFILE its
# --profile; GPUBENCH_SESSIONS is the number of sessions a side, 3 by default: with fewer no change
# is attributed. Ends with the status of `gpubench diff`.
set -euo pipefail

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
    local status=0 verdict rows
    # Where nothing can be compared, nothing is written.
    rm -f "$folder/upgrade.md"
    "$gpubench" diff --vary driver --format md --output "$folder/upgrade.md" \
        "$folder/before" -- "$folder/after" || status=$?
    [ ! -s "$folder/upgrade.md" ] || cat "$folder/upgrade.md"
    case $status in
    0) verdict=unchanged ;;
    10) verdict=inconclusive ;;
    30) verdict=REGRESSED ;;
    *) verdict="not compared" ;;
    esac
    # The rows with this verdict: mechanism and axis, each once.
    rows=$({ grep -s "^| $verdict" "$folder/upgrade.md" || true; } | sed 's/\\//g' |
        cut -d '|' -f 3,4 | tr -s ' ' | sed 's/^ //; s/ $//; s/ | / /' | sort -u |
        paste -sd ';' | sed 's/;/; /g')
    [ -z "${GITHUB_ACTIONS:-}" ] || [ "$status" = 0 ] ||
        echo "::error title=gpubench driver upgrade::$verdict: $rows"
    echo "driver-upgrade: $verdict (status $status): $rows"
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
