"""``merge``: the result of a job whose shards are finished, byte for byte that of a single run."""

from collections.abc import Sequence
from pathlib import Path

from pan_scdg.jobs.detect import detect_pairs
from pan_scdg.jobs.options import RunOptions
from pan_scdg.jobs.retrieve import retrieve_sources
from pan_scdg.jobs.shards import read_shards
from pan_scdg.profile import parse_profile


def merge(
    directory: Path, output: Path, folders: Sequence[Path], model: Path | None = None, overwrite: bool = False
) -> list[str]:
    """Write the results of all shards together; returns the lines to show the user.

    Profile and settings are those of the shards, and no device is needed: nothing is computed but from their scores.

    Args:
        directory: the input that the shards were made from.
        output: the output directory.
        folders: the output directory of every shard, in any order.
        model: the language model's folder, where it is not in the model cache; its tokenizer is read.
        overwrite: redo a finished output.

    Raises:
        UserError: a shard is missing, unfinished, damaged or of another job, or input or models are not theirs.
    """
    shards = read_shards(folders)
    job = shards.job
    options = RunOptions(
        directory,
        output,
        job["device"],
        model=model,
        limit=job.get("limit"),
        overwrite=overwrite,
        keep_gains=job["keep_gains"],
        on_error=job["on_error"],
        engine=job["engine"],
        shards=shards,
    )
    run = detect_pairs if job["task"] == "pairs" else retrieve_sources
    return run(parse_profile(job["profile"], shards.folders[0]), options)
