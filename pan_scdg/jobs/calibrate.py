"""Choose the threshold of a profile, and its q, w, n or weights, on pairs with truth (paper, PAN25 aggregation)."""

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import tomlkit

from pan_scdg.errors import UserError
from pan_scdg.jobs.pairs.detect import open_method
from pan_scdg.jobs.requests import Computing, take_first
from pan_scdg.jobs.shards import Shards
from pan_scdg.logs import say
from pan_scdg.models.find import describe_models
from pan_scdg.notices import Notices
from pan_scdg.own_files import write_atomically
from pan_scdg.pan.inputs import hash_input
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.pan.truth import find_truth, read_truth
from pan_scdg.profile import Profile, find_profile, parse_profile, read_toml
from pan_scdg.records import DocumentPair
from pan_scdg.scdg.aggregation import AGGREGATIONS
from pan_scdg.scoring.pair_method import Calibrated, OnError
from pan_scdg.store import Store

SCORING = ("limit", "over_long", "control", "segments")
"""Fields of ``[pairs]`` on which the gains of a pair depend."""
LEFT_OUT = "pair that cannot be scored, left out of the calibration"


def read_labelled_pairs(
    directory: Path, truth: Path | None, notices: Notices
) -> tuple[Mapping[DocumentPair, bool], str]:
    """Return the pairs of an input, True where the source was reused, and the digest of the input.

    Without ``truth``, its folder is searched beside the pairs.

    Raises:
        UserError: the truth is missing, or all pairs have the same label.
    """
    corpus = read_pairs(directory, notices)
    found = truth or find_truth(directory)
    if found is None:
        raise UserError("no truth was found in the input folder", "give its folder with --truth", directory)
    passages = read_truth(found, corpus.pairs)
    labels = {pair: bool(passages[pair.suspicious.doc_id, pair.source.doc_id]) for pair in corpus.pairs}
    if len(set(labels.values())) < 2:
        raise UserError("all pairs have the same label", "calibrate on pairs of both classes", found)
    return labels, hash_input(directory, "pairs", pairs=corpus)


def calibrate(
    profile: Profile,
    labels: Mapping[DocumentPair, bool],
    digest: str,
    computing: Computing,
    notices: Notices,
    *,
    limit: int | None = None,
    on_error: OnError = "stop",
    vectors: Path | None = None,
) -> Calibrated:
    """Choose the threshold, and the parameter or the weights of the method.

    For gains, the range of the targets and the scores of the negative pairs are part of the choice; later verdicts
    refer to them.
    Shards of ``run --scores-only`` hold the scores, and have their own limit and ``on_error``; without shards, the
    pairs are scored. With ``on_error`` "negative", pairs that cannot be scored are left out.

    Raises:
        UserError: a pair cannot be scored, a model or vectors are missing, a prompted baseline lacks a state folder, or
            the shards are of other pairs, another model or other settings.
    """
    shards = computing.shards
    all_pairs, on_error = tuple(labels), shards.job.get("on_error", on_error)
    pairs, _ = take_first(all_pairs, shards.job.get("limit", limit), "pairs")
    blank = _forget_choice(profile.decide_nothing())
    method = open_method(blank, computing, pairs, all_pairs=all_pairs, vectors=vectors)
    with closing(method):
        if shards.folders:
            _check_shards(shards, digest, profile, method.identify())
        elif profile.baseline is not None and profile.baseline.needs_state and computing.state is None:
            what = "answers of the model would be lost if this run stopped"
            raise UserError(what, "give a folder for them with --state")
        planned, failed = method.check(pairs, notices, on_error)
        for item in failed:
            notices.add(LEFT_OUT, str(item.pair.suspicious.path))
        if method.models:
            say([describe_models(method.models.values())])
        with (
            tempfile.TemporaryDirectory(prefix="pan_scdg-") as scratch,
            Store(computing.state or Path(scratch)) as store,
        ):
            shards.restore(store)
            return method.calibrate(method.score(planned, store), labels, digest, store)


def _forget_choice(profile: Profile) -> Profile:
    """Return a profile without chosen values, so that every pair is scored for all grids and for nothing else."""
    if profile.baseline is not None:
        return profile.model_copy(update={"baseline": next(iter(profile.baseline.vary().values()))})
    if profile.pairs is None:
        return profile
    blank = dict.fromkeys(("q", "w", "weights"))
    return profile.model_copy(update={"pairs": profile.pairs.model_copy(update=blank)})


def _check_shards(shards: Shards, digest: str, profile: Profile, models: Mapping[str, Any]) -> None:
    """Raise UserError if the shards are of another task, input or model, or of settings that give other scores."""
    job = shards.job
    differs = ["input"] if job["task"] != "pairs" or job["input"] != digest else []
    found = json.loads(json.dumps(models))
    differs += [name.replace("_", " ") for name, of in found.items() if job["models"].get(name) != of]
    if not differs and profile.baseline is None:
        own, made = profile.need_pairs().model_dump(mode="json"), job["profile"]["pairs"] or {}
        costly = AGGREGATIONS[own["aggregation"]].costly
        fields = (*SCORING, "aggregation") if costly else SCORING
        differs = [f"[pairs] {name}" for name in fields if made.get(name) != own[name]]
    if differs:
        raise UserError(
            f"these scores were computed with another {differs[0]}",
            "give the input, profile and model of `run --scores-only`",
            shards.folders[0],
        )


def check_target(profile: str, target: Path) -> None:
    """Check before scoring that the profile can be written to ``target``.

    Raises:
        UserError: its folder is missing or not writable, or its name is not valid for a profile.
    """
    parse_profile(copy_profile(profile, target).unwrap(), target)
    if target.is_dir() or not os.access(target.parent, os.W_OK | os.X_OK):
        raise UserError("cannot be written", "give a file in an existing, writable folder with --write", target)


def write_profile(profile: str, target: Path, found: Calibrated) -> None:
    """Copy the file of ``profile`` to ``target`` and write the choice into it; comments are kept."""
    document = copy_profile(profile, target)
    found.edit(document)
    parse_profile(document.unwrap(), target)
    write_atomically(target, tomlkit.dumps(document))


def copy_profile(profile: str, target: Path) -> tomlkit.TOMLDocument:
    """Return the file of a profile, renamed to the stem of ``target`` so that results distinguish the two."""
    document = read_toml(find_profile(profile))
    if target.stem != document["name"]:
        document["name"] = target.stem
    return document
