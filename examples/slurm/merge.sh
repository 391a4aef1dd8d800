#!/usr/bin/env bash
# Merge the shards of examples/slurm/shard.sh, once all are finished:
#
#   sbatch --dependency=afterany:JOB examples/slurm/merge.sh FOLDER --input INPUT [--model DIR]
#
# writes FOLDER/merged. Needs no GPU. If shards are missing, it names them and how to submit them again.
#SBATCH --job-name=pan-scdg-merge
#SBATCH --cpus-per-task=2
#SBATCH --mem=16G
#SBATCH --time=02:00:00
set -uo pipefail

folder=$1
shift
missing=$(pan-scdg merge --missing "$folder"/shard-*)
code=$?
if [[ -n $missing ]]; then
    echo "unfinished shards; submit them again: SHARDS=N sbatch --array=$missing examples/slurm/shard.sh $folder ..." >&2
fi
((code == 0)) || exit "$code"
exec pan-scdg merge "$@" --output "$folder/merged" "$folder"/shard-*
