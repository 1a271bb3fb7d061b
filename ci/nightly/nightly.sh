#!/usr/bin/env bash
# One night on one GPU: measures, stores the record, compares it with the nights before, and ends
# with a status that a CI system understands. ci/nightly/README.md has the variables and statuses.
#
#     bash ci/nightly/nightly.sh [FLAG OF gpubench matrix]...
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/verdict.sh"

gpubench=${GPUBENCH:-gpubench}
profile=${GPUBENCH_PROFILE:-nightly}
nights=${GPUBENCH_NIGHTS:-nights}
out=${GPUBENCH_OUT:-gpubench-night}
lock=${GPUBENCH_LOCK:-${TMPDIR:-/tmp}/gpubench-nightly.lock}
lock_wait_s=${GPUBENCH_LOCK_WAIT_S:-3600}
summary=${GPUBENCH_SUMMARY:-${GITHUB_STEP_SUMMARY:-$out/summary.md}}
device=()
[ -z "${GPUBENCH_DEVICE:-}" ] || device=(--device "$GPUBENCH_DEVICE")
baseline=()
[ -z "${GPUBENCH_BASELINE:-}" ] || baseline=(--baseline "$GPUBENCH_BASELINE")

# The record of a night that was killed stays in its staging folder, which no comparison reads.
started=$(date -u +%Y-%m-%dT%H-%M-%SZ)
staging="$nights/.staging/$started-$$"
record="$nights/$started-$$"
rm -rf "$out"
mkdir -p "$out" "$nights/.staging"
: >"$out/night.md"

# Ends the night: the verdict is the last line printed, the last of the summary, and one line of the
# list of nights.
end() {
    local status=$1 reason=$2 verdict
    verdict=$(verdict_of "$status")
    {
        printf '\n**%s** (status %s): %s\n' "$verdict" "$status" "$reason"
    } >>"$out/night.md"
    cat "$out/night.md" >>"$summary"
    printf '%s\t%s\t%s\t%s\t%s\n' "$started" "$verdict" "$status" "${record##*/}" "$reason" \
        >>"$nights/nights.tsv"
    annotate "$verdict" "$reason"
    printf 'nightly: %s (status %s): %s\n' "$verdict" "$status" "$reason"
    exit "$(exit_of "$verdict" "$status")"
}

# Two jobs of one host must not measure at once: the second one waits, and gpubench itself refuses a
# GPU that another run holds.
exec 9>"$lock"
if ! flock --wait "$lock_wait_s" 9; then
    end 3 "skipped: another night held $lock for $lock_wait_s s"
fi

measured=0
"$gpubench" matrix "${device[@]}" --profile "$profile" --out "$staging" "$@" \
    >"$out/matrix.txt" 2>"$out/matrix.err" 9>&- || measured=$?
cat "$out/matrix.err" >&2
case $measured in
0 | 4 | 10) ;;
3) end 3 "skipped: $(last_line "$out/matrix.err")" ;;
*) end "$measured" "matrix ended with status $measured: $(last_line "$out/matrix.err")" ;;
esac
mv "$staging" "$record"

# What the night measured, for people and as a test report, also where it cannot be compared.
"$gpubench" report "$record" --format md --output "$out/report.md"
"$gpubench" report "$record" --format junit --output "$out/matrix.xml"
"$gpubench" report "$record" --format openmetrics --output "$out/gpubench.prom"

# The comparison with the nights before, to a file in a format; ends with its status.
compare() {
    "$gpubench" diff --against-history "$nights" "${baseline[@]}" --format "$1" --output "$2" \
        "${@:3}" -- "$record" 2>"$out/diff.err"
}

compared=0
compare md "$out/night.md" || compared=$?
cat "$out/diff.err" >&2
if [ -s "$out/night.md" ]; then
    # As a test report. It has no verdict of its own: two sides that differ are not comparable.
    status=0
    compare junit "$out/diff.xml" --advisory || status=$?
    [ "$status" = 0 ] || [ "$status" = 20 ] || compared=$status
else
    cp "$out/report.md" "$out/night.md"
fi

worse=$(worse_of "$compared" "$measured")
case $worse in
4) end 4 "cells failed: $(last_line "$out/matrix.err")" ;;
*) end "$worse" "$(reason_of "$worse" "$out/night.md" "$out/diff.err")" ;;
esac
