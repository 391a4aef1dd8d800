"""Choose the threshold of a baseline, and its n or weights, on pairs with truth."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tomlkit

from pan_scdg.baselines.cosine import choose_official_threshold
from pan_scdg.errors import UserError, UserErrors
from pan_scdg.evaluation.logistic import fit_logistic
from pan_scdg.evaluation.pairs import compute_pair_metrics
from pan_scdg.jobs.calibrate import Calibrated, LabelledPairs, describe_quality
from pan_scdg.jobs.requests import Computing
from pan_scdg.logs import say
from pan_scdg.models.find import describe_models
from pan_scdg.profile import Profile
from pan_scdg.profile.baseline import (
    Alignment,
    BaselineSettings,
    CharNgrams,
    Cosine,
    GramLogistic,
    LogisticWeights,
    ModelBaseline,
    Prompted,
    VectorCosine,
)
from pan_scdg.scdg.decision import choose_threshold
from pan_scdg.scoring.baseline_parts import BaselineParts, find_parts, need_baseline, refuse_unused
from pan_scdg.scoring.baseline_scoring import TextFacts, choose_scores, make_collection, read_facts, score_pairs
from pan_scdg.store import Store


class _Scoring(NamedTuple):
    """Scores the pairs with any settings of the method."""

    known: LabelledPairs
    facts: dict[str, TextFacts]
    parts: BaselineParts
    store: Store

    def score(self, settings: BaselineSettings) -> list[tuple[float, ...]]:
        collection = make_collection((pair.source for pair in self.known.pairs), self.facts)
        scorer = self.parts.make_scorer(settings, collection, self.store)
        return score_pairs(self.known.pairs, scorer, self.store, self.facts)


def calibrate_baseline(
    profile: Profile, known: LabelledPairs, computing: Computing, scores: Path, vectors: Path | None = None
) -> Calibrated:
    """Choose the threshold of a baseline, and its n or weights.

    The threshold of a cosine is chosen as in the official baseline, which the paper uses; every other one by the
    paper's rule: unique scores, F1, ties by accuracy. The n of character n-grams is chosen together with the threshold,
    like q; the larger n wins ties. A logistic model is first fitted on the same pairs.

    Args:
        profile: has a baseline.
        known: the pairs to choose on.
        computing: model folder and device.
        scores: the folder of the store.
        vectors: folder of document vectors, if the baseline needs them.

    Raises:
        UserError: a text cannot be read, a model or vectors are missing, or a prompted baseline lacks a state folder.
    """
    settings = need_baseline(profile)
    if isinstance(settings, Prompted) and computing.state is None:
        raise UserError("answers of the model would be lost if this run stopped", "give a folder for them with --state")
    refuse_unused(settings, {"--engine reference": computing.engine == "reference"})
    documents = [document for pair in known.pairs for document in (pair.suspicious, pair.source)]
    ids = sorted({document.doc_id for document in documents})
    parts = find_parts(settings, computing.device, ids, vectors=vectors, model=computing.model, state=computing.state)
    facts, faults = read_facts(documents)
    if faults:
        raise UserErrors(list(faults.values()))
    if parts.places:
        say([describe_models(list(parts.places.values()))])
    with Store(scores) as store:
        chosen, decisive = _choose(settings, _Scoring(known, facts, parts, store))
    if isinstance(chosen, ModelBaseline):
        given = parts.places.get("language_model")
        name = {"model": given.name} if given is not None and given.where == "--model" else {}
        chosen = chosen.model_copy(update={"calibrated_with": parts.fingerprint, **name})
    return _describe(chosen, decisive, known)


def _choose(settings: BaselineSettings, scoring: _Scoring) -> tuple[BaselineSettings, npt.NDArray[Any]]:
    """Return the settings with the chosen values and the scores with these settings, ``[pairs]``."""
    labels = scoring.known.labels
    if isinstance(settings, CharNgrams):
        by_n = {n: settings.model_copy(update={"n": n}) for n in settings.n_grid}
        table = {float(n): choose_scores(of_n, scoring.score(of_n)) for n, of_n in by_n.items()}
        choice = choose_threshold(table, labels)
        return by_n[int(choice.parameter)].model_copy(update={"threshold": choice.threshold}), table[choice.parameter]
    rows: Sequence[tuple[float, ...]] = scoring.score(settings)
    if isinstance(settings, GramLogistic):
        fit = fit_logistic(np.array(rows), labels)
        settings = settings.model_copy(update={"weights": LogisticWeights(**fit._asdict())})
    scores = choose_scores(settings, rows)
    if isinstance(settings, Cosine | VectorCosine):
        threshold = choose_official_threshold(scores, labels).threshold
    else:
        allowed = settings.most_false_positives if isinstance(settings, Alignment) else 1.0
        threshold = choose_threshold({0.0: scores}, labels, allowed).threshold
    return settings.model_copy(update={"threshold": threshold}), scores


def _describe(chosen: BaselineSettings, scores: npt.NDArray[Any], known: LabelledPairs) -> Calibrated:
    threshold, labels = chosen.threshold, known.labels
    if threshold is None:
        raise ValueError("no threshold was chosen")
    decided = scores >= threshold
    n = {"n": chosen.n} if isinstance(chosen, CharNgrams) else {}
    words = f"{chosen.kind}{''.join(f' with n {value}' for value in n.values())}, threshold {threshold:.6f}"
    f1, accuracy = compute_pair_metrics(labels, scores, decided)["f1"], float(np.mean(decided == labels))
    pairs, positives = len(labels), int(labels.sum())
    comment = f"by calibrate: {describe_quality(f1, accuracy, pairs, positives)}, input {known.digest[:12]}"

    def edit(document: tomlkit.TOMLDocument) -> None:
        _write_choice(document, chosen, threshold, comment)

    return Calibrated({**n, "threshold": threshold}, words, f1, accuracy, pairs, positives, edit)


def _write_choice(document: tomlkit.TOMLDocument, chosen: BaselineSettings, threshold: float, comment: str) -> None:
    """Write the choice into a profile file, and its quality as a comment."""
    table: Any = document["baseline"]
    for name in ("threshold", "weights", "calibrated_with"):
        table.pop(name, None)
    if isinstance(chosen, CharNgrams):
        table["n"] = chosen.n
    item = tomlkit.item(threshold)
    item.comment(comment).trivia.comment_ws = "  "
    table.append("threshold", item)
    if isinstance(chosen, ModelBaseline):
        table["model"] = chosen.model
        table.append("calibrated_with", chosen.calibrated_with)
    if isinstance(chosen, GramLogistic) and chosen.weights is not None:
        weights = tomlkit.table()
        weights.update(chosen.weights.model_dump(mode="json"))
        table["weights"] = weights
