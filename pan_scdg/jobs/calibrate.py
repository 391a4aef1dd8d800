"""Choose the threshold of a profile, and its q, w, n or weights, on pairs with truth (paper, PAN25 aggregation)."""

import json
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import tomlkit

from pan_scdg.errors import UserError
from pan_scdg.jobs.pairs.detect import open_method
from pan_scdg.jobs.requests import Computing, Request, take_first
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
from pan_scdg.scoring.pair_method import Calibrated
from pan_scdg.store import Store

SCORING = ("limit", "over_long", "control", "segments")
"""Fields of ``[pairs]`` on which the gains of a pair depend."""
LEFT_OUT = "pair that cannot be scored, left out of the calibration"


def calibrate(
    profile: Profile, source: str, request: Request, computing: Computing, truth: Path | None, vectors: Path | None
) -> tuple[Calibrated, list[str]]:
    """Choose the threshold, and the parameter or the weights of the method, and write a profile with them.

    For gains, the range of the targets and the scores of the negative pairs are part of the choice; later verdicts
    refer to them.
    Shards of ``run --scores-only`` hold the scores, and have their own limit and ``on_error``; without shards, the
    pairs are scored. With ``on_error`` "negative", pairs that cannot be scored are left out.

    Args:
        profile: the settings to score with.
        source: the profile by name, or its file, which is copied with its comments.
        request: the pairs, their limit, and the profile file to write, whose stem is the name of the new profile.
        computing: model folder, device and engine, or shards with all scores.
        truth: folder of the truth; None: searched beside the pairs.
        vectors: folder of document vectors, if the baseline needs them.

    Returns:
        The choice, and warnings about the input.

    Raises:
        UserError: the truth is missing, all pairs have the same label, a pair cannot be scored, a model or vectors are
            missing, a prompted baseline lacks a state folder, or the shards are of other pairs, another model or other
            settings.
    """
    document, notices = read_toml(find_profile(source)), Notices()
    if request.output.stem != document["name"]:
        document["name"] = request.output.stem  # results distinguish the two profiles
    parse_profile(document.unwrap(), request.output)  # a wrong name is refused before anything is scored
    labels, digest = _read_labelled_pairs(request.input, truth, notices)
    found = _choose(profile, labels, digest, request, computing, vectors, notices)
    found.edit(document)
    parse_profile(document.unwrap(), request.output)
    write_atomically(request.output, tomlkit.dumps(document))
    return found, notices.list_warnings()


def _read_labelled_pairs(
    directory: Path, truth: Path | None, notices: Notices
) -> tuple[Mapping[DocumentPair, bool], str]:
    """Return the pairs of an input, True where the source was reused, and the digest of the input."""
    corpus = read_pairs(directory, notices)
    found = truth or find_truth(directory)
    if found is None:
        raise UserError("no truth was found in the input folder", "give its folder with --truth", directory)
    passages = read_truth(found, corpus.pairs)
    labels = {pair: bool(passages[pair.suspicious.doc_id, pair.source.doc_id]) for pair in corpus.pairs}
    if len(set(labels.values())) < 2:
        raise UserError("all pairs have the same label", "calibrate on pairs of both classes", found)
    return labels, hash_input(directory, "pairs", pairs=corpus)


def _choose(
    profile: Profile,
    labels: Mapping[DocumentPair, bool],
    digest: str,
    request: Request,
    computing: Computing,
    vectors: Path | None,
    notices: Notices,
) -> Calibrated:
    shards = computing.shards
    all_pairs, on_error = tuple(labels), shards.job.get("on_error", request.on_error)
    pairs, _ = take_first(all_pairs, shards.job.get("limit", request.limit), "pairs")
    blank = _forget_choice(profile.decide_nothing())
    with closing(open_method(blank, computing, pairs, all_pairs=all_pairs, vectors=vectors)) as method:
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
