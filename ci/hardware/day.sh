#!/usr/bin/env bash
# What to measure on a GPU that is there for a while, most important first:
#
#     ci/hardware/day.sh --minutes N [--from STEP] [--device DEVICE] [--list] OUT
#     ci/hardware/day.sh --only STEP,STEP [--device DEVICE] [--list] OUT
#
# It runs the steps that fit into N minutes, names those that it leaves, and always ends with the
# last one. Each step has a time limit and writes into OUT/STEP; one that fails stays there, and the
# next one runs. README.md beside this file has the steps. No device setting is changed.
#
# GPUBENCH is the program (else that on PATH); GPUBENCH_CLIENTS a Python with the packages of
# ci/install-clients.sh, without which their programs are skipped by name. `--device virtual` or
# `--device virtual:MACHINE` rehearses all of it.
set -uo pipefail
export PYTHONDONTWRITEBYTECODE=1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
self=$here/day.sh
root=$(cd "$here/../.." && pwd)
profiles=$root/profiles/hardware

# Each step with the seconds that it is planned for.
steps=(facts contracts smoke day kernels repeat probes faults dose last)
declare -A planned=([facts]=20 [contracts]=90 [smoke]=80 [day]=330 [kernels]=40 [repeat]=240
    [probes]=60 [faults]=420 [dose]=120 [last]=20)
# `day` is interrupted after this time, or once this many cells have begun.
interrupt_s=90
interrupt_cells=150

say() { printf '== %s\n' "$*"; }
die() {
    printf 'day.sh: %s\n' "$*" >&2
    exit 2
}
known() { [ -n "${planned[$1]:-}" ] || die "--$2: no step $1 (known: ${steps[*]})"; }

minutes='' from='' only='' device='' inside='' list=0 out=''
while [ $# -gt 0 ]; do
    case $1 in
    --minutes | --from | --only | --device | --inside)
        [ $# -gt 1 ] || die "$1 needs a value"
        printf -v "${1#--}" %s "$2"
        shift
        ;;
    --list) list=1 ;;
    -*) die "unknown option $1" ;;
    *) [ -z "$out" ] && out=$1 || die "one folder, and $1 is another" ;;
    esac
    shift
done
[ -n "$out" ] || die "no folder for the results (see the head of $0)"
[ -z "$from" ] || known "$from" from
for name in ${only//,/ }; do known "$name" only; done
[ -n "$only$inside" ] || [[ $minutes =~ ^[0-9]{1,4}$ ]] ||
    die "--minutes: '$minutes' is no number of minutes"
minutes=$((10#${minutes:-0}))
program=$(command -v "${GPUBENCH:-gpubench}") || die "no gpubench: name it with GPUBENCH"
program=$(realpath "$program")
# Inside, the folder is another one.
export GPUBENCH=$program
at=()
[ -z "$device" ] || at=(--device "$device")

# Runs a command of a step into a file, which ends with its status; returns that status.
keep() {
    local file=$1 status=0
    shift
    "$@" >"$file" 2>&1 || status=$?
    printf 'rc %s\n' "$status" >>"$file"
    return "$status"
}
# As `keep`, where a device may refuse: a failure is an answer.
answer() { keep "$@" || true; }

matrix() { "$program" matrix "${at[@]}" "$@"; }
# A run and the checks of its record. An exit code of `matrix` is that of the step.
run_matrix() {
    local name=$1 status=0
    shift
    keep "$name.txt" matrix --out "$name" "$@" || status=$?
    check_record "$name" || status=$?
    return "$status"
}
check_record() {
    keep "$1-verify.txt" "$program" report "$1" --verify || return
    answer "$1-why.txt" "$program" report "$1" --why
}

# Runs one part of this script where the driver is: here, or inside a virtual GPU.
on_device() {
    case $device in
    virtual*)
        local machine=${device#virtual}
        machine=${machine#:}
        "$program" virtual-gpu exec ${machine:+--machine "$machine"} -- \
            "$self" --inside "$1" "$PWD"
        ;;
    *) "$self" --inside "$1" "$PWD" ;;
    esac
}

step_facts() { on_device vendor && answer list.txt "$program" doctor "${at[@]}" --format json; }
inside_vendor() {
    answer smi.txt nvidia-smi
    answer smi.xml nvidia-smi -q -x
    answer lgip.txt nvidia-smi mig -lgip
    answer lcip.txt nvidia-smi mig -lcip
    answer lgi.txt nvidia-smi mig -lgi
    answer policy.txt nvidia-smi compute-policy -l
    answer topo.txt nvidia-smi topo -m
    answer mps-version.txt nvidia-cuda-mps-control -v
    answer module.txt cat /proc/driver/nvidia/version /proc/driver/nvidia/params
    answer kernel-log.txt bash -c "dmesg | grep -m 3 NVRM"
    answer processes.txt ps -eo pid,ppid,user,etimes,comm
    # What matters of all these is that the device was reached.
    answer attributes.txt python3 "$here/driver.py" attributes
    grep -q '^16 [1-9]' attributes.txt
}

step_contracts() {
    local status=0
    keep doctor.txt "$program" doctor "${at[@]}" --verify || status=$?
    on_device driver || status=$?
    return "$status"
}
inside_driver() {
    local status=0
    keep splits.txt python3 "$here/driver.py" splits || status=$?
    mps_percentages || status=$?
    conformance || status=$?
    return "$status"
}
# SMs that clients of an MPS server of our own see, by their percentage.
mps_percentages() (
    CUDA_MPS_PIPE_DIRECTORY=$(mktemp -d) CUDA_MPS_LOG_DIRECTORY=$PWD
    export CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
    trap 'echo quit | nvidia-cuda-mps-control; rm -rf "$CUDA_MPS_PIPE_DIRECTORY"' EXIT
    keep mps-start.txt nvidia-cuda-mps-control -d || exit
    for percent in 10 25 50 75 100; do
        printf 'pct %s ' "$percent"
        CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=$percent python3 "$here/driver.py" sms || exit
    done >mps-percentages.txt 2>&1
    for command in get_server_list ps get_default_active_thread_percentage lspart; do
        printf '== %s\n' "$command"
        echo "$command" | nvidia-cuda-mps-control
    done >mps-answers.txt 2>&1
)
# The programs that the virtual GPU is checked with, which are those of others.
conformance() {
    local status=0 name python=${GPUBENCH_CLIENTS:-} real=()
    [ -n "${GPUBENCH_VIRTUAL_GPU:-}" ] || real=(--real)
    if command -v cc >/dev/null; then
        cc -o "$PWD/conformance" "$root/ci/conformance_driver.c" -ldl &&
            keep conformance-driver.txt ./conformance "$root/kernels/ptx/pattern_fill.ptx" ||
            status=$?
        rm -f conformance
    else
        echo "skipped: no C compiler" >conformance-driver.txt
    fi
    # NVML's program takes a flag for hardware.
    for name in nvml cuda core; do
        if [ -n "$python" ]; then
            keep "conformance-$name.txt" "$python" "$root/ci/conformance_$name.py" \
                "${real[@]}" || status=$?
            real=()
        else
            echo "skipped: GPUBENCH_CLIENTS names no Python" >"conformance-$name.txt"
        fi
    done
    return "$status"
}

step_smoke() { run_matrix smoke --profile smoke --no-faults; }

step_day() {
    local status=0 begun=$SECONDS pid
    # A command in the background of a script ignores SIGINT otherwise.
    env --default-signal=INT "$program" matrix "${at[@]}" --profile "$profiles/day.toml" --out day \
        >day-first.txt 2>&1 &
    pid=$!
    while kill -0 "$pid" 2>/dev/null && [ $((SECONDS - begun)) -lt "$interrupt_s" ] &&
        [ "$(find day/cells -mindepth 1 -maxdepth 1 2>/dev/null | wc -l)" -lt "$interrupt_cells" ]
    do sleep 0.2; done
    kill -INT "$pid" 2>/dev/null
    wait "$pid" || status=$?
    echo "rc $status after $((SECONDS - begun)) s" >>day-first.txt
    # 130: interrupted, as it must be. Any other end has no run to go on with.
    [ "$status" = 130 ] || return $((status > 0 ? status : 1))
    status=0
    keep day-resumed.txt "$program" matrix "${at[@]}" --resume day || status=$?
    check_record day || status=$?
    return "$status"
}

step_kernels() { on_device kernels; }
inside_kernels() { keep bench.txt python3 "$here/driver.py" kernels; }

step_repeat() {
    local status=0 run
    for run in 1 2 3; do
        run_matrix "repeat-$run" --profile "$profiles/repeat.toml" --seed 1 || status=$?
    done
    # 10: inconclusive, which a pair of equal sessions may be.
    keep diff.txt "$program" diff repeat-1 -- repeat-2 repeat-3 || [ $? = 10 ] || status=1
    return "$status"
}

step_probes() { run_matrix probes --profile "$profiles/probes.toml"; }

step_faults() {
    local status=0
    run_matrix time-slicing --profile "$profiles/faults.toml" --faults --fault-trials 2 \
        --mechanism exclusive,time-slicing || status=$?
    run_matrix mps --profile "$profiles/faults.toml" --faults --fault-trials 3 \
        --mechanism exclusive,mps || status=$?
    answer xid.txt bash -c "dmesg | grep Xid"
    return "$status"
}

step_dose() { run_matrix dose --profile "$profiles/dose.toml"; }

# The facts again, and whether anything of ours is left.
step_last() {
    on_device vendor || return
    answer cleanup.txt "$program" cleanup "${at[@]}"
    # Of the processes of this host those that an earlier step started, by the folder that it gave
    # them. The others may be of other users.
    local folder=${PWD%/last} file left=0
    for file in /proc/[0-9]*/environ; do
        grep -zs '^GPUBENCH_DAY=' "$file" | grep -qaF "=$folder/" || continue
        grep -zs '^GPUBENCH_DAY=' "$file" | grep -qaF "=$folder/last" && continue
        ps -o pid=,ppid=,etimes=,args= -p "${file//[!0-9]/}" && left=1
    done >left.txt
    [ "$left" = 0 ]
}

# One part inside the device, for on_device.
if [ -n "$inside" ]; then
    cd "$out" || exit 2
    "inside_$inside"
    exit
fi

# Runs a step in a process group of its own, which its limit ends.
run_step() {
    local name=$1 status=0 begun=$SECONDS limit=$((planned[$1] * 3 / 2 + 60))
    mkdir -p "$out/$name" || die "cannot write $out/$name"
    say "$name: planned $((planned[$name])) s, at most $limit s"
    timeout --signal=INT --kill-after=30 "$limit" env GPUBENCH_DAY="$out/$name" "$self" \
        --only "$name" ${device:+--device "$device"} "$out/$name" \
        >"$out/$name/output.txt" 2>&1 || status=$?
    [ "$status" = 0 ] || tail -n 5 "$out/$name/output.txt"
    printf '%s\t%s\t%s\t%s\n' "$name" "$status" $((SECONDS - begun)) \
        "$(du -sk "$out/$name" | cut -f 1)" >>"$out/steps.tsv"
    say "$name: status $status after $((SECONDS - begun)) s"
    return "$status"
}

out=$(realpath -m "$out")
if [ -n "${GPUBENCH_DAY:-}" ]; then
    cd "$out" || exit 2
    "step_$only"
    exit
fi

chosen=() left=() total=${planned[last]}
started=0
for name in "${steps[@]}"; do
    [ -z "$from" ] || [ "$from" != "$name" ] || started=1
    [ "$name" != last ] || continue
    if [ -n "$only" ]; then
        [[ ,$only, != *,$name,* ]] || { chosen+=("$name"); total=$((total + planned[$name])); }
    elif [ -n "$from" ] && [ "$started" = 0 ]; then
        :
    elif [ $((total + planned[$name])) -le $((minutes * 60)) ]; then
        chosen+=("$name")
        total=$((total + planned[$name]))
    else
        left+=("$name (${planned[$name]} s)")
    fi
done
chosen+=(last)
say "steps: ${chosen[*]}; planned $total s"
[ ${#left[@]} = 0 ] || say "left, for want of time: ${left[*]}"
[ "$list" = 0 ] || exit 0

mkdir -p "$out" || die "cannot write $out"
[ -z "$(ls -A "$out")" ] || die "$out is not empty"
printf 'step\tstatus\tseconds\tKiB\n' >"$out/steps.tsv"
failed=0
for name in "${chosen[@]}"; do
    # A step before it that took longer must not take the time of the last one.
    if [ -z "$only" ] && [ "$name" != last ] &&
        [ $((SECONDS + planned[$name] + planned[last])) -gt $((minutes * 60)) ]; then
        say "left, as earlier steps took longer: $name"
        continue
    fi
    [ "$name" = last ] || [ "$failed" != smoke ] || continue
    run_step "$name" && continue
    failed=1
    [ "$name" != smoke ] || failed=smoke
    [ "$failed" != smoke ] || say "no run works here, as $out/smoke says: left, all but last"
done
say "in $out:"
cat "$out/steps.tsv"
[ "$failed" = 0 ]
