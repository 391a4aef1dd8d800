"""Merge the finished shards of a job into the result of a single run, byte for byte."""

from collections.abc import Sequence
from pathlib import Path

from pan_scdg.jobs.pairs.detect import detect_pairs
from pan_scdg.jobs.requests import Computing, Request
from pan_scdg.jobs.retrieval.retrieve import retrieve_sources
from pan_scdg.jobs.shards import read_shards
from pan_scdg.profile import parse_profile


def merge_shards(
    directory: Path,
    output: Path,
    folders: Sequence[Path],
    model: Path | None = None,
    overwrite: bool = False,
    report: bool = False,
) -> list[str]:
    """Write the result of a job from all of its shards; return the lines to show the user.

    Uses the profile and settings of the shards. No device is needed, since the shards hold all scores.

    Args:
        directory: the input that the shards were made from.
        output: the output directory.
        folders: the output directory of every shard, in any order.
        model: folder of the language model if it is not in the model cache; its tokenizer is read.
        overwrite: replace a finished output.
        report: also write a page; that of pairs has the gains of tokens if the shards hold them.

    Raises:
        UserError: a shard is missing, unfinished, damaged or of another job, or was made with another input or model.
    """
    shards = read_shards(folders)
    job = shards.job
    request = Request(
        directory,
        output,
        limit=job.get("limit"),
        overwrite=overwrite,
        keep_gains=job["keep_gains"],
        on_error=job["on_error"],
        report=report,
    )
    computing = Computing(job["device"], model, job["engine"], shards=shards)
    profile = parse_profile(job["profile"], shards.folders[0])
    if job["task"] == "pairs":
        return detect_pairs(profile, request, computing)
    return retrieve_sources(profile, request, computing)
