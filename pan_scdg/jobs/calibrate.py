"""``calibrate``: q or w and the threshold from pairs with truth, for a profile file (paper, PAN25 aggregation)."""

import os
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import tomlkit

from pan_scdg.errors import UserError
from pan_scdg.jobs.options import RunOptions
from pan_scdg.logs import say
from pan_scdg.models.cache import FoundModel
from pan_scdg.models.places import models_line
from pan_scdg.notices import Notices
from pan_scdg.own_files import write_atomically
from pan_scdg.pan.inputs import input_digest
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.pan.truth import find_truth, read_truth
from pan_scdg.profile import Calibration, Profile, find_profile, parse_profile, read_document
from pan_scdg.scdg.calibration_range import range_of, thinned
from pan_scdg.scdg.decision import Choice, choose
from pan_scdg.scoring.features import feature_grid
from pan_scdg.scoring.known_range import facts_of_pairs, known_noise
from pan_scdg.scoring.pairs import check_pairs, labels_and_scores, score_pairs
from pan_scdg.store import Store


class Calibrated(NamedTuple):
    """What was chosen, on what, with which model, and the lines to show the user."""

    choice: Choice
    calibration: Calibration
    model: FoundModel
    lines: list[str]


def calibrate(profile: Profile, options: RunOptions, truth: Path | None, state: Path) -> Calibrated:
    """Choose q or w, as the aggregation has it, from the profile's grid, and the threshold, on the pairs of the input.

    What a verdict needs to know of these pairs is kept with the choice: the range of their targets, and what the
    negative ones score.

    Raises:
        UserError: there is no truth, a pair cannot be scored, or one class is missing.
    """
    settings = profile.need_pairs()
    notices = Notices(options.strict)
    corpus = read_pairs(options.input, notices)
    found = truth or find_truth(options.input)
    if found is None:
        raise UserError("there is no truth beside the pairs", "give its folder with --truth", options.input)
    positive = {pair: bool(spans) for pair, spans in read_truth(found, corpus.pairs).items()}
    if len(set(positive.values())) < 2:
        raise UserError("all pairs have the same label", "calibrate on pairs of both classes", found)
    model = options.scoring_model(profile.need_model())
    # the percentages and widths of the grids are features of every pair, whatever the profile has now
    wanted = settings.model_copy(update={"q": None, "w": None, "threshold": None})
    if missing := set(map(float, settings.q_grid)) - set(feature_grid([])):
        raise UserError(
            f"q_grid has percentages that are not scored: {sorted(missing)}", "take them from the paper's grid"
        )
    planned, _none_failed = check_pairs(corpus.pairs, model, wanted, notices, options.on_error)
    say([models_line([model.found])])
    with Store(state) as store, closing(model):
        scored = score_pairs(planned, model, wanted, store, keep_gains=False)
    grid = settings.q_grid if settings.aggregation == "top" else settings.w_grid
    labels, scores = labels_and_scores(scored, positive, grid, settings.aggregation)
    choice = choose(scores, labels, settings.most_false_positives)
    calibration = Calibration(
        model=model.fingerprint,
        dtype=model.settings.dtype,
        noise=known_noise(settings.calibration, model),
        digest=input_digest(options.input, "pairs"),
        pairs=len(labels),
        positives=int(labels.sum()),
        f1=round(choice.f1, 6),
        accuracy=round(choice.accuracy, 6),
        negatives=thinned(scores[choice.parameter][~labels]),
        negative_pairs=int((~labels).sum()),
        range=range_of(list(facts_of_pairs(scored, model.tokenizer))),
    )
    return Calibrated(choice, calibration, model.found, notices.lines())


def check_target(profile: str, target: Path) -> None:
    """Find out before hours of scoring that the profile could not be written to ``target``.

    Raises:
        UserError: its folder is missing or not writable, or its name is none for a profile.
    """
    parse_profile(renamed(profile, target).unwrap(), target)
    if target.is_dir() or not os.access(target.parent, os.W_OK | os.X_OK):
        raise UserError("cannot be written", "give a file in an existing, writable folder with --write", target)


def write_profile(profile: str, target: Path, found: Calibrated, over_long: str | None = None) -> None:
    """Copy the profile file to ``target`` with the chosen q or w, threshold and calibration; comments are kept.

    A model that the user gave gets its own name, so that the threshold is not taken for that of the profile's model.
    """
    choice, calibration, model, _ = found
    document = renamed(profile, target)
    if model.where == "--model":
        table: Any = document["model"]
        table["name"] = model.name
    pairs: Any = document["pairs"]
    if pairs.get("aggregation", "top") == "top":
        pairs["q"] = float(choice.parameter)
    else:
        pairs["w"] = int(choice.parameter)
    pairs["threshold"] = float(choice.threshold)
    if over_long is not None:  # what the threshold was chosen under
        pairs["over_long"] = over_long
    table = tomlkit.table()
    table.update(calibration.model_dump(mode="json", exclude={"range"}, exclude_none=True))
    last = table
    if calibration.range is not None:
        last = tomlkit.table()
        last.update(calibration.range.model_dump(mode="json"))
        table["range"] = last
    last.add(tomlkit.nl())
    pairs["calibration"] = table
    parse_profile(document.unwrap(), target)
    write_atomically(target, tomlkit.dumps(document))


def renamed(profile: str, target: Path) -> tomlkit.TOMLDocument:
    """The profile file under the name of ``target``, so that results tell the two apart."""
    document = read_document(find_profile(profile))
    if target.stem != document["name"]:
        document["name"] = target.stem
    return document
