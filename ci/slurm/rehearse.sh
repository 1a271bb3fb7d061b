#!/usr/bin/env bash
# Rehearses the Slurm jobs on this host: Debian's munged, slurmctld and two slurmd in the
# foreground, a GRES for each, and the virtual GPU. An array of four runs to its end with its
# reducer, while a task is requeued, which goes on with its record, and one of the two nodes is
# killed, whose task is measured anew. The history is whole.
#
#     bash ci/slurm/rehearse.sh
#
# GPUBENCH is the program. Everything is in a folder of its own, and every daemon is stopped again.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

gpubench=$(realpath "${GPUBENCH:-$(command -v gpubench)}")
folder=$(mktemp -d "${TMPDIR:-/tmp}/gpubench-slurm.XXXXXX")
daemons=()
killed=n1

say() { printf 'slurm: %s\n' "$*"; }

fail() {
    say "FAILED: $*" >&2
    tail -n 20 "$folder"/log/* "$folder"/results/logs/* >&2 2>/dev/null || true
    exit 1
}

# A node's daemon, the daemons of its steps, and the processes of its jobs: their environment names
# this rehearsal and the node.
processes_of() {
    local environ
    for environ in /proc/[0-9]*/environ; do
        if grep -qzxF "SLURM_CONF=$folder/slurm.conf" "$environ" 2>/dev/null &&
            grep -qzxE "(SLURMD_NODENAME|REHEARSED_NODE)=$1" "$environ" 2>/dev/null; then
            environ=${environ#/proc/}
            echo "${environ%/environ}"
        fi
    done
}

stop() {
    local status=$? pid
    for pid in $(processes_of n1) $(processes_of n2) "${daemons[@]}"; do
        kill -9 "$pid" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    [ "$status" = 0 ] || say "stopped with status $status"
    [ -n "${GPUBENCH_KEEP:-}" ] || rm -rf "$folder"
}
trap stop EXIT

# Starts a daemon in the foreground, as a background job of this script.
start() {
    local name=$1
    shift
    "$@" >"$folder/log/$name.txt" 2>&1 &
    daemons+=("$!")
}

# Waits until a command succeeds.
until_true() {
    local what=$1 limit_s=$2 end
    shift 2
    end=$((SECONDS + limit_s))
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || fail "not within $limit_s s: $what"
        sleep 1
    done
}

for tool in munged slurmctld slurmd sbatch scontrol; do
    command -v "$tool" >/dev/null || PATH="$PATH:/usr/sbin"
    command -v "$tool" >/dev/null || fail "$tool is missing: bash ci/install-slurm.sh"
done
chmod 755 "$folder"
mkdir -p "$folder"/{log,state,spool-n1,spool-n2,results}
dd if=/dev/urandom of="$folder/munge.key" bs=128 count=1 status=none
chmod 600 "$folder/munge.key"
host=$(hostname -s)
cores=$(nproc)
cat >"$folder/slurm.conf" <<CONF
ClusterName=gpubench
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CryptoType=crypto/munge
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/backfill
SelectType=select/cons_tres
GresTypes=gpu
ReturnToService=2
SlurmdTimeout=10
MinJobAge=3600
KillWait=5
JobRequeue=1
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=16821 CPUs=$cores Gres=gpu:virtual:1
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=16822 CPUs=$cores Gres=gpu:virtual:1
PartitionName=gpu Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=EXCLUSIVE
CONF
# The virtual GPU has no device node; Slurm counts files, and this one stands for it.
for node in n1 n2; do
    : >"$folder/gpu-$node"
    echo "NodeName=$node Name=gpu Type=virtual File=$folder/gpu-$node"
done >"$folder/gres.conf"
export SLURM_CONF="$folder/slurm.conf"

start munged munged --foreground --force --key-file="$folder/munge.key" \
    --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
    --log-file="$folder/log/munged.log" --seed-file="$folder/munge.seed"
until_true "munged answers" 20 test -S "$folder/munge.socket"
start slurmctld slurmctld -D -c -f "$folder/slurm.conf"
start slurmd-n1 env REHEARSED_NODE=n1 slurmd -D -N n1 -f "$folder/slurm.conf"
start slurmd-n2 env REHEARSED_NODE=n2 slurmd -D -N n2 -f "$folder/slurm.conf"

state_is() { [[ $(scontrol show node "$1" 2>/dev/null) = *"State=$2"* ]]; }
until_true "n1 is idle" 60 state_is n1 IDLE
until_true "n2 is idle" 60 state_is n2 IDLE
say "two nodes are idle: $(sinfo --noheader --Node --format='%N %G' | tr '\n' ' ')"

export GPUBENCH="$gpubench" GPUBENCH_RESULTS="$folder/results" GPUBENCH_DEVICE=virtual:turing
export GPUBENCH_PROFILE=default GPUBENCH_FLAGS="--mechanism exclusive,time-slicing"
export XDG_STATE_HOME="$folder/state-of-gpubench"
read -r array reducer < <(bash "$here/submit.sh" 4)
say "array $array, reducer $reducer"

# A running task of a node, once it has measured a cell.
measures() {
    task=$(squeue --noheader --array --nodelist="$1" --states=RUNNING --format='%i' |
        grep "^${array}_" | head -n 1) || return 1
    grep -qs '"event":"cell-ended"' "$folder/results/staging/$array-${task#*_}".*/events.jsonl
}
until_true "a task measures on n2" 120 measures n2
resumed=$task
say "requeueing task $resumed, which runs on n2"
scontrol requeue "$resumed"
restarted() { [[ $(scontrol show job "$1") = *" Restarts=1 "* ]]; }
until_true "task $resumed is requeued" 60 restarted "$resumed"

until_true "a task measures on $killed" 120 measures "$killed"
say "killing $killed, which runs task $task"
# All at once, as when a host loses power: a daemon that lived longer than the processes of its job
# would report that they ended.
mapfile -t lost < <(processes_of "$killed")
[ "${#lost[@]}" -ge 3 ] || fail "$killed has only ${#lost[@]} processes"
kill -STOP "${lost[@]}"
kill -9 "${lost[@]}"

until_true "$killed is down" 120 state_is "$killed" DOWN
until_true "task $task is requeued" 60 restarted "$task"
say "task $task is requeued: $(scontrol show job "$task" | tr -s ' ' '\n' | grep -m 1 JobState)"
# Slurm holds a requeued job back for two minutes. Both start on n2, which is the one that is left.
for requeued in "$task" "$resumed"; do scontrol update "jobid=$requeued" StartTime=now; done

has_ended() { [[ $(scontrol show job "$1") =~ JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT) ]]; }
until_true "the reducer ends" 420 has_ended "$reducer"
[[ $(scontrol show job "$reducer") = *"JobState=COMPLETED"* ]] || fail "the reducer failed"

records=("$folder/results/records/$array"-*)
[ "${#records[@]}" = 4 ] || fail "${#records[@]} records, and 4 tasks"
for record in "${records[@]}"; do
    grep -q '"complete": true' "$record/record.json" || fail "$record is not complete"
    say "$(basename "$record"): $(grep -o '"node": "[^"]*"' "$record/record.json")"
done
grep -q '"node": "n2"' "$folder/results/records/$array-${task#*_}/record.json" ||
    fail "task $task did not move to n2"
grep -q '"last_event_at"' "$folder/results/records/$array-${resumed#*_}/record.json" ||
    fail "task $resumed was not resumed"
[ -d "$folder/results/staging/$array-${task#*_}.0" ] || fail "what the killed run left is gone"
grep -q '4 sessions' "$folder/results/history.txt" || fail "the history has not 4 sessions"
say "task $resumed went on where it was requeued, task $task was measured again on n2, and the" \
    "history has 4 sessions"
