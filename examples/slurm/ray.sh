#!/usr/bin/env bash
# One run on all GPUs of several nodes:
#
#   sbatch --nodes=4 examples/slurm/ray.sh OUTPUT RUN-OPTIONS...
#
# writes OUTPUT, with the options of `pan-scdg run` except --output and --cluster. Ray connects the nodes; all of them need
# pan-scdg with the extra `cluster`, and the models at the same path. HEAD=ADDRESS names the first node, where its host name
# is not what the others reach it by.
#
# Every score is stored in OUTPUT as soon as it is computed. Ray starts a process that ended again. If a node is lost, or the
# time limit is near, the run stops with exit code 3 and the job is queued again; it then goes on where it stopped.
#SBATCH --job-name=pan-scdg
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --gres=gpu:8
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@300
#SBATCH --no-kill
#SBATCH --requeue
#SBATCH --open-mode=append
set -uo pipefail

output=$1
shift
export RAY_USAGE_STATS_ENABLED=0 RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=600
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN # without it, anybody in the network can use the cluster
RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
number=$(mktemp)

# Ray takes --include-dashboard on the first node only
start='((SLURM_PROCID)) || first=--include-dashboard=false
exec ray symmetric-run --address "$1" --min-nodes "$2" ${first:-} -- "${@:3}"'
# what Slurm tells every process must not end this shell before it has written the exit code of the run
run='trap : TERM
(echo "$BASHPID" >"$0" && exec pan-scdg run "$@")
code=$?
echo "$code" >"$0.code"
exit "$code"'
srun --no-kill --kill-on-bad-exit=0 \
    bash -c "$start" start "${HEAD:-$(hostname)}:$((20000 + SLURM_JOB_ID % 20000))" "$SLURM_JOB_NUM_NODES" \
    bash -c "$run" "$number" "$@" --output "$output" --cluster auto &
step=$!
stopped=0
stop() { # this script is on the first node, as the run is
    stopped=1
    if [[ -s $number ]]; then
        kill -TERM "$(<"$number")"
    else
        kill -TERM "$step"
    fi
}
trap stop TERM
wait "$step"
code=$?
if ((code > 128)); then # the signal ended this wait, and the run is storing its last scores
    wait "$step"
    code=$?
fi
own=$(cat "$number.code" 2>/dev/null)
if [[ -n $own ]]; then # srun's is the highest of all nodes, and a lost node has one, too
    code=$own
elif ((code == 0)); then # symmetric-run hides that Ray did not start
    echo "error: Ray did not start on the first node, so nothing was run; see above" >&2
    code=1
fi
if ((stopped)) && [[ ${own:-143} == 143 ]]; then # the run had not begun, or could not yet handle the signal
    code=3
fi
rm -f "$number" "$number.code"
if ((code == 3)); then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
