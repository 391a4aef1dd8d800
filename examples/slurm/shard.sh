#!/usr/bin/env bash
# One shard of a run in each job of a Slurm array:
#
#   sbatch --array=1-8 examples/slurm/shard.sh FOLDER RUN-OPTIONS...
#
# writes FOLDER/shard-1 to FOLDER/shard-8, with the options of `pan-scdg run` except --output and --shard. To submit some of
# them again: SHARDS=8 sbatch --array=3,7 examples/slurm/shard.sh FOLDER RUN-OPTIONS...
#
# Every score is stored in the folder of the shard as soon as it is computed. Before the time limit, and when the job is
# preempted, the run stops with exit code 3 and is queued again; it then goes on where it stopped.
#SBATCH --job-name=pan-scdg
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=8
#SBATCH --mem=64G
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@300
#SBATCH --requeue
#SBATCH --open-mode=append
set -uo pipefail

folder=$1
shift
pan-scdg run "$@" --output "$folder/shard-$SLURM_ARRAY_TASK_ID" --shard "auto${SHARDS:+/$SHARDS}" &
run=$!
stopped=0
trap 'stopped=1; kill -TERM "$run"' TERM
wait "$run"
code=$?
if ((code > 128)); then # the signal ended this wait, and the run is storing its last scores
    wait "$run"
    code=$?
fi
if ((stopped && code == 143)); then # the run could not yet handle the signal
    code=3
fi
if ((code == 3)); then
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
fi
exit "$code"
