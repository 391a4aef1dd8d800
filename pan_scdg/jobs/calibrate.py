"""Choose the threshold of a profile, and its q, w, n or weights, on pairs with truth (paper, PAN25 aggregation)."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tomlkit

from pan_scdg.errors import UserError
from pan_scdg.jobs.requests import Computing
from pan_scdg.logs import say
from pan_scdg.models.find import describe_models
from pan_scdg.notices import Notices
from pan_scdg.own_files import write_atomically
from pan_scdg.pan.inputs import hash_input
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.pan.truth import find_truth, read_truth
from pan_scdg.profile import Calibration, Profile, find_profile, parse_profile, read_toml
from pan_scdg.records import DocumentPair
from pan_scdg.scdg.aggregation import Aggregate
from pan_scdg.scdg.calibration_range import find_range, thin_scores
from pan_scdg.scdg.decision import choose_threshold
from pan_scdg.scoring.calibration import find_noise, measure_targets
from pan_scdg.scoring.pairs import check_pairs, score_pairs, tabulate_scores
from pan_scdg.store import Store

Labels = npt.NDArray[np.bool_]


class LabelledPairs(NamedTuple):
    """The pairs of an input whose truth is known."""

    pairs: tuple[DocumentPair, ...]
    labels: Labels
    """True where the source was reused, ``[pairs]``."""
    digest: str
    """Of the input."""


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
    profile: Profile, known: LabelledPairs, computing: Computing, notices: Notices, scores: Path
) -> Calibrated:
    """Choose the parameter of the aggregation from the profile's grid, and the threshold.

    The range of the targets and the scores of the negative pairs are part of the choice; later verdicts refer to them.

    Args:
        profile: has a language model.
        known: the pairs to choose on.
        computing: model folder, device and engine.
        notices: collects unusual findings.
        scores: the folder of the store.

    Raises:
        UserError: a pair cannot be scored.
    """
    settings = profile.need_pairs()
    model = computing.open_model(profile.need_model())
    # every pair has the features of all grids, whatever q or w the profile has
    wanted = settings.model_copy(update={"q": None, "w": None, "threshold": None})
    planned, _none_failed = check_pairs(known.pairs, model, wanted, notices)
    say([describe_models([model.found])])
    with Store(scores) as store, closing(model):
        scored = score_pairs(planned, model, wanted, store, keep_gains=False)
    ids = [(pair.suspicious.doc_id, pair.source.doc_id) for pair in known.pairs]
    positive = dict(zip(ids, known.labels.tolist(), strict=True))
    labels, table = tabulate_scores(scored, positive, settings.grid, settings.aggregation)
    choice = choose_threshold(table, labels, settings.most_false_positives)
    calibration = Calibration(
        model=model.fingerprint,
        dtype=model.settings.dtype,
        noise=find_noise(settings.calibration, model),
        digest=known.digest,
        pairs=len(labels),
        positives=int(labels.sum()),
        f1=round(choice.f1, 6),
        accuracy=round(choice.accuracy, 6),
        negatives=thin_scores(table[choice.parameter][~labels]),
        negative_pairs=int((~labels).sum()),
        range=find_range(list(measure_targets(scored, model.tokenizer))),
    )
    aggregate = Aggregate(settings.aggregation, choice.parameter)
    parameter = {"q": float(choice.parameter)} if settings.parameter == "q" else {"w": int(choice.parameter)}
    chosen = {**parameter, "threshold": float(choice.threshold)}

    def edit(document: tomlkit.TOMLDocument) -> None:
        if model.found.where == "--model":  # the threshold is of this model, not of the one in the profile
            table: Any = document["model"]
            table["name"] = model.found.name
        pairs: Any = document["pairs"]
        pairs.update(chosen)
        if pairs.get("over_long", "error") != settings.over_long:  # the threshold depends on it
            pairs["over_long"] = settings.over_long
        pairs["calibration"] = _make_table(calibration)

    words = f"{aggregate.name}, threshold {choice.threshold:.6f}"
    return Calibrated(chosen, words, choice.f1, choice.accuracy, len(labels), int(labels.sum()), edit)


def _make_table(calibration: Calibration) -> tomlkit.items.Table:
    table = tomlkit.table()
    table.update(calibration.model_dump(mode="json", exclude={"range"}, exclude_none=True))
    last = table
    if calibration.range is not None:
        last = tomlkit.table()
        last.update(calibration.range.model_dump(mode="json"))
        table["range"] = last
    last.add(tomlkit.nl())
    return table


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
