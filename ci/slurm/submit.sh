#!/usr/bin/env bash
# Submits an array of tasks and, behind it, the job that reads their records.
#
#     GPUBENCH_RESULTS=FOLDER bash ci/slurm/submit.sh TASKS [FLAG OF sbatch]...
#
# Prints the ids of both jobs. The flags count for the array, for example --partition=gpu.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

tasks=${1:-}
if ! [[ $tasks =~ ^[1-9][0-9]*$ ]]; then
    echo "usage: submit.sh TASKS [FLAG OF sbatch]...; TASKS is a number from 1" >&2
    exit 2
fi
shift
: "${GPUBENCH_RESULTS:?the results folder, on a file system that all nodes share}"
mkdir -p "$GPUBENCH_RESULTS/logs"

array=$(sbatch --parsable --array="0-$((tasks - 1))" \
    --output="$GPUBENCH_RESULTS/logs/%A-%a.txt" "$@" "$here/array.sbatch")
# afterany: also where a task failed, because the others have records.
reducer=$(sbatch --parsable --dependency="afterany:$array" \
    --export="ALL,GPUBENCH_ARRAY=$array,GPUBENCH_TASKS=$tasks" \
    --output="$GPUBENCH_RESULTS/logs/%j-reduce.txt" "$here/reduce.sbatch")
echo "$array $reducer"
