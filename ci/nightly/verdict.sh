# What statuses of gpubench mean for a nightly job. Sourced by the scripts beside it.
# shellcheck shell=bash

# green, warning, skipped or red. Red is everything that is not known to be harmless.
verdict_of() {
    case $1 in
    0) echo green ;;
    10 | 20) echo warning ;;
    3) echo skipped ;;
    *) echo red ;;
    esac
}

# The worse of two statuses: red before warning before green, and of two red ones the first.
worse_of() {
    local verdict status
    for verdict in red warning; do
        for status in "$1" "$2"; do
            if [ "$(verdict_of "$status")" = "$verdict" ]; then
                echo "$status"
                return
            fi
        done
    done
    echo 0
}

# The exit status of a job. GPUBENCH_NEUTRAL=status passes 3, 10 and 20 on to a CI system that shows
# them as warnings; without it they are 0, and `annotate` makes them visible.
exit_of() {
    case $1:${GPUBENCH_NEUTRAL:-pass} in
    green:* | warning:pass | skipped:pass) echo 0 ;;
    *) echo "$2" ;;
    esac
}

# Shows what is not green: as an annotation of GitHub Actions, elsewhere on standard error.
annotate() {
    local level
    case $1 in
    green) return ;;
    red) level=error ;;
    *) level=warning ;;
    esac
    if [ "${GITHUB_ACTIONS:-}" = true ]; then
        printf '::%s title=gpubench %s::%s\n' "$level" "$1" "$2"
    else
        printf '%s: %s\n' "${level^^}" "$2" >&2
    fi
}

# The last line of a file that is neither empty nor a hint, without colours.
last_line() {
    sed -e 's/\x1b\[[0-9;]*m//g' -e '/^[[:space:]]*$/d' -e '/^hint: /d' -e 's/^error: //' "$1" |
        tail -n 1
}

# Why two sides cannot be compared: the line of the Markdown that names the fact, or the last line
# of what was printed.
not_compared() {
    local fact
    fact=$(grep -s -m 1 'must not' "$1" | sed 's/^- //; s/\\//g') || fact=$(last_line "$2")
    echo "$fact"
}

# The rows of a verdict in a comparison in Markdown: mechanism, axis and pair, each once.
rows_of() {
    { grep -s "^| $1" "$2" || true; } | sed 's/\\//g' | cut -d '|' -f 3,4 | tr -s ' ' |
        sed 's/^ //; s/ $//; s/ | / /' | sort -u | paste -sd ';' | sed 's/;/; /g'
}

# Why a comparison ended with this status: from its Markdown, or from what it printed as an error.
reason_of() {
    local status=$1 markdown=$2 printed=$3 rows
    case $status in
    0) echo "no row got worse" ;;
    10)
        rows=$(rows_of inconclusive "$markdown")
        echo "rows are inconclusive${rows:+: $rows}"
        ;;
    20) echo "not compared: $(not_compared "$markdown" "$printed")" ;;
    30) echo "isolation got worse: $(rows_of REGRESSED "$markdown")" ;;
    *) echo "diff ended with status $status: $(last_line "$printed")" ;;
    esac
}
