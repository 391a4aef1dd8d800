"""Choose the threshold of a profile, and its q, w, n or weights, on pairs with truth (paper, PAN25 aggregation)."""

import json
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tomlkit

from pan_scdg.errors import UserError
from pan_scdg.jobs.calibrated_rule import choose_rule, write_rule
from pan_scdg.jobs.requests import Computing
from pan_scdg.jobs.shards import Shards, open_model
from pan_scdg.logs import say
from pan_scdg.models.find import describe_models
from pan_scdg.notices import Notices
from pan_scdg.own_files import write_atomically
from pan_scdg.pan.inputs import hash_input
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.pan.truth import find_truth, read_truth
from pan_scdg.profile import Calibration, PairSettings, Profile, find_profile, parse_profile, read_toml
from pan_scdg.records import DocumentPair
from pan_scdg.scdg.aggregation import AGGREGATIONS
from pan_scdg.scdg.calibration_range import find_range, thin_scores
from pan_scdg.scoring.calibration import find_noise, measure_targets
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import OnError
from pan_scdg.scoring.pairs import ScoredPair, check_pairs, score_pairs
from pan_scdg.store import Store

Labels = npt.NDArray[np.bool_]
SCORING = ("limit", "over_long", "control", "segments")
"""Fields of ``[pairs]`` on which the gains of a pair depend."""
LEFT_OUT = "pair that cannot be scored, left out of the calibration"
REMEDY = "give the input, profile and model of `run --scores-only`"


class LabelledPairs(NamedTuple):
    """The pairs of an input whose truth is known."""

    pairs: tuple[DocumentPair, ...]
    labels: Labels
    """True where the source was reused, ``[pairs]``."""
    digest: str
    """Of the input."""

    def get_labels(self, pairs: Sequence[DocumentPair]) -> Labels:
        """Return the labels of some of the pairs."""
        known = dict(zip(self.pairs, self.labels.tolist(), strict=True))
        return np.array([known[pair] for pair in pairs], dtype=bool)

    def take_first(self, count: int | None) -> "LabelledPairs":
        """Return the first pairs; all for None."""
        return self._replace(pairs=self.pairs[:count], labels=self.labels[:count])


class Calibrated(NamedTuple):
    """Chosen values of a profile, with their quality on the pairs they were chosen on."""

    chosen: dict[str, Any]
    """The threshold and the other chosen fields of the profile, by name."""
    words: str
    """The choice in words."""
    f1: float
    accuracy: float
    pairs: int
    positives: int
    edit: Callable[[tomlkit.TOMLDocument], None]
    """Write the choice into a profile file."""

    def summarise(self) -> str:
        """Return the choice and its quality in one line."""
        return f"{self.words}: {describe_quality(self.f1, self.accuracy, self.pairs, self.positives)}"

    def to_json(self) -> dict[str, Any]:
        """Return the choice and its quality as JSON values."""
        quality = {"f1": self.f1, "accuracy": self.accuracy, "pairs": self.pairs, "positives": self.positives}
        return {**self.chosen, **quality}


def describe_quality(f1: float, accuracy: float, pairs: int, positives: int) -> str:
    """Return the quality of a choice in words."""
    return f"F1 {f1:.4f}, accuracy {accuracy:.4f} on {pairs} pairs ({positives} positive)"


def read_labelled_pairs(directory: Path, truth: Path | None, notices: Notices) -> LabelledPairs:
    """Read the pairs of an input and their truth.

    Args:
        directory: the input.
        truth: the folder of truth XML; None: searched beside the pairs.
        notices: collects unusual findings.

    Raises:
        UserError: the truth is missing, or all pairs have the same label.
    """
    corpus = read_pairs(directory, notices)
    found = truth or find_truth(directory)
    if found is None:
        raise UserError("no truth was found in the input folder", "give its folder with --truth", directory)
    passages = read_truth(found, corpus.pairs)
    labels = np.array([bool(passages[p.suspicious.doc_id, p.source.doc_id]) for p in corpus.pairs], dtype=bool)
    if labels.all() or not labels.any():
        raise UserError("all pairs have the same label", "calibrate on pairs of both classes", found)
    return LabelledPairs(corpus.pairs, labels, hash_input(directory, "pairs"))


def calibrate(
    profile: Profile,
    known: LabelledPairs,
    computing: Computing,
    notices: Notices,
    scores: Path,
    shards: Shards | None = None,
    on_error: OnError = "stop",
) -> Calibrated:
    """Choose the parameter or the weights of the aggregation, and the threshold.

    The range of the targets and the scores of the negative pairs are part of the choice; later verdicts refer to them.

    Args:
        profile: has a language model.
        known: the pairs to choose on.
        computing: model folder, device and engine.
        notices: collects unusual findings.
        scores: the folder of the store.
        shards: the scores of the pairs, from ``run --scores-only``; None: they are computed.
        on_error: "negative": pairs that cannot be scored are left out. Shards have their own.

    Raises:
        UserError: a pair cannot be scored, or the shards are of other pairs, another model or other settings.
    """
    settings = profile.need_pairs()
    model = open_model(profile.need_model(), computing, "pairs", shards)
    if shards is not None:
        known, on_error = select_scored_pairs(shards, known, profile, model), shards.job["on_error"]
    # every pair has the features of all grids, whatever q or w the profile has
    wanted = settings.model_copy(update={"q": None, "w": None, "weights": None, "threshold": None})
    planned, failed = check_pairs(known.pairs, model, wanted, notices, on_error)
    for item in failed:
        notices.add(LEFT_OUT, str(item.pair.suspicious.path))
    say([describe_models([model.found])])
    with Store(scores) as store, closing(model):
        if shards is not None:
            shards.restore(store)
        scored = score_pairs(planned, model, wanted, store, keep_gains=False)
    return _choose(settings, known, scored, model)


def _choose(
    settings: PairSettings, known: LabelledPairs, scored: Sequence[ScoredPair], model: ScoringModel
) -> Calibrated:
    """Return the choice on the scored pairs, and what later verdicts have to know of these."""
    labels = known.get_labels([item.plan.pair for item in scored])
    choice = choose_rule([item.features for item in scored], labels, settings)
    facts = list(measure_targets(scored, model.tokenizer))
    calibration = Calibration(
        model=model.fingerprint,
        dtype=model.settings.dtype,
        noise=None if choice.aggregate.entry.statistics else find_noise(settings.calibration, model),
        digest=known.digest,
        pairs=len(labels),
        positives=int(labels.sum()),
        f1=round(choice.f1, 6),
        accuracy=round(choice.accuracy, 6),
        negatives=thin_scores(choice.scores[~labels]),
        negative_pairs=int((~labels).sum()),
        range=find_range(facts),
    )

    def edit(document: tomlkit.TOMLDocument) -> None:
        if model.found.where == "--model":  # the threshold is of this model, not of the one in the profile
            table: Any = document["model"]
            table["name"] = model.found.name
        write_rule(document, choice, calibration, settings.over_long)

    words = f"{choice.aggregate.name}, threshold {choice.threshold:.6f}"
    chosen = {**choice.parameter, "threshold": choice.threshold}
    return Calibrated(chosen, words, choice.f1, choice.accuracy, len(labels), int(labels.sum()), edit)


def select_scored_pairs(shards: Shards, known: LabelledPairs, profile: Profile, model: ScoringModel) -> LabelledPairs:
    """Return the labelled pairs that the shards hold: all of the input, or the first ones with ``--limit``.

    Raises:
        UserError: the shards are of another task, input or model, or of settings that give other scores.
    """
    job, settings = shards.job, profile.need_pairs()
    made: Any = job["profile"]["pairs"] if job["task"] == "pairs" else {}
    own = settings.model_dump(mode="json")
    differs = [f"[pairs] {name}" for name in SCORING if (made or {}).get(name) != own[name]]
    entry = AGGREGATIONS[settings.aggregation]
    if entry.costly and settings.aggregation != (made or {}).get("aggregation"):
        differs.append("[pairs] aggregation")
    if job["input"] != known.digest:
        differs = ["input"]
    elif job["models"].get("language_model") != json.loads(json.dumps(model.identify())):
        differs = ["language model"]
    if differs:
        raise UserError(
            f"these scores were computed with another {differs[0]}",
            REMEDY,
            shards.folders[0],
        )
    return known.take_first(job.get("limit"))


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
