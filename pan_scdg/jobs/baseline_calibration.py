"""``calibrate`` of a baseline: its threshold, and what else it has to choose, from pairs with truth."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tomlkit

from pan_scdg.baselines.official_threshold import official_threshold
from pan_scdg.errors import UserError, UserErrors
from pan_scdg.evaluation.logistic import fit_logistic
from pan_scdg.evaluation.pairs import pair_metrics
from pan_scdg.jobs.calibrate import renamed
from pan_scdg.jobs.options import RunOptions, baseline_parts
from pan_scdg.logs import say
from pan_scdg.models.places import models_line
from pan_scdg.notices import Notices
from pan_scdg.own_files import write_atomically
from pan_scdg.pan.inputs import input_digest
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.pan.truth import find_truth, read_truth
from pan_scdg.profile import Profile, parse_profile
from pan_scdg.profile.baseline import (
    BaselineSettings,
    CharNgrams,
    Cosine,
    GramLogistic,
    LogisticWeights,
    Prompted,
    VectorCosine,
)
from pan_scdg.scdg.decision import choose
from pan_scdg.scoring.baseline_models import Outside, settings_of
from pan_scdg.scoring.baseline_scoring import (
    LazyPair,
    TextFacts,
    collection_of,
    decision_scores,
    lazy_pair,
    read_facts,
    score_pairs,
)
from pan_scdg.store import Store

Labels = npt.NDArray[np.bool_]


class Calibrated(NamedTuple):
    """The settings with everything chosen, and what they do on the pairs that they were chosen on."""

    settings: BaselineSettings
    f1: float
    accuracy: float
    pairs: int
    positives: int
    digest: str
    """Of the input."""

    def figures(self) -> str:
        """F1, accuracy and the pairs, in words."""
        pairs = f"{self.pairs} pairs ({self.positives} positive)"
        return f"F1 {self.f1:.4f}, accuracy {self.accuracy:.4f} on {pairs}"


class _Pairs(NamedTuple):
    """The pairs of the input, their labels and what is known of their texts."""

    lazy: Sequence[LazyPair]
    labels: Labels
    facts: dict[str, TextFacts]
    outside: Outside
    store: Store

    def rows(self, settings: BaselineSettings) -> list[tuple[float, ...]]:
        collection = collection_of((pair.source for pair in self.lazy), self.facts)
        return score_pairs(self.lazy, self.outside.scorer(settings, collection, self.store), self.store, self.facts)


def calibrate_baseline(
    profile: Profile, options: RunOptions, truth: Path | None, state: Path
) -> tuple[Calibrated, list[str]]:
    """Choose on the pairs of the input; the lines to show the user come with it.

    The threshold of a cosine is found as by the official baseline, which is where the paper takes it from; every other
    one by the paper's rule: unique scores, F1, ties by accuracy. The n of character n-grams is chosen like q, together
    with the threshold, ties to the larger n. A logistic model is fitted first, on the same pairs.

    Raises:
        UserError: there is no truth, a text cannot be read, or one class is missing; a model is to be asked and
            nothing keeps its answers.
    """
    settings, notices = settings_of(profile), Notices(options.strict)
    if isinstance(settings, Prompted) and options.state is None:
        raise UserError(
            "answers of a model would be lost if this stopped", "give a folder that keeps them with --state"
        )
    corpus = read_pairs(options.input, notices)
    found = truth or find_truth(options.input)
    if found is None:
        raise UserError("there is no truth beside the pairs", "give its folder with --truth", options.input)
    passages = read_truth(found, corpus.pairs)
    labels = np.array([bool(passages[p.suspicious.doc_id, p.source.doc_id]) for p in corpus.pairs], dtype=bool)
    if labels.all() or not labels.any():
        raise UserError("all pairs have the same label", "calibrate on pairs of both classes", found)
    lazy = [lazy_pair(pair) for pair in corpus.pairs]
    outside = baseline_parts(settings, options, sorted({text.doc_id for pair in lazy for text in pair}))
    facts, faults = read_facts(text for pair in lazy for text in pair)
    if faults:
        raise UserErrors(list(faults.values()))
    if outside.places:
        say([models_line(list(outside.places.values()))])
    with Store(state) as store:
        chosen, scores = _chosen(settings, _Pairs(lazy, labels, facts, outside, store))
    if isinstance(chosen, Cosine | Prompted):
        chosen = chosen.model_copy(update={"calibrated_with": outside.fingerprint, **_given(outside)})
    decided = scores >= _threshold(chosen)
    metrics = pair_metrics(labels, scores, decided)
    accuracy = float(np.mean(decided == labels))
    digest = input_digest(options.input, "pairs")
    return Calibrated(chosen, metrics["f1"], accuracy, len(labels), int(labels.sum()), digest), notices.lines()


def _chosen(settings: BaselineSettings, pairs: _Pairs) -> tuple[BaselineSettings, npt.NDArray[Any]]:
    """The settings with everything chosen, and the scores under them, ``[pairs]``."""
    if isinstance(settings, CharNgrams):
        by_n = {n: settings.model_copy(update={"n": n}) for n in settings.n_grid}
        table = {float(n): decision_scores(of, pairs.rows(of)) for n, of in by_n.items()}
        choice = choose(table, pairs.labels)
        n = int(choice.parameter)
        return by_n[n].model_copy(update={"threshold": choice.threshold}), table[choice.parameter]
    rows = pairs.rows(settings)
    if isinstance(settings, GramLogistic):
        fit = fit_logistic(np.array(rows), pairs.labels)
        settings = settings.model_copy(update={"weights": LogisticWeights(**fit._asdict())})
    scores = decision_scores(settings, rows)
    if isinstance(settings, Cosine | VectorCosine):
        threshold = official_threshold(scores, pairs.labels).threshold
    else:
        threshold = choose({0.0: scores}, pairs.labels).threshold
    return settings.model_copy(update={"threshold": threshold}), scores


def _given(outside: Outside) -> dict[str, str]:
    """Return the name of a model that the user gave in the place of the profile's."""
    found = outside.places.get("language_model")
    return {"model": found.name} if found is not None and found.where == "--model" else {}


def _threshold(settings: BaselineSettings) -> float:
    if settings.threshold is None:
        raise ValueError("no threshold was chosen")
    return settings.threshold


def write_baseline(profile: str, target: Path, chosen: Calibrated) -> None:
    """Copy the profile file to ``target`` with what was chosen; comments are kept.

    Beside the threshold stands what it was chosen on, for a baseline's table has no room for it.
    """
    document = renamed(profile, target)
    table: Any = document["baseline"]
    for name in ("threshold", "weights", "calibrated_with"):
        table.pop(name, None)
    if isinstance(chosen.settings, CharNgrams):
        table["n"] = chosen.settings.n
    threshold = tomlkit.item(_threshold(chosen.settings))
    threshold.comment(f"by calibrate: {chosen.figures()}, input {chosen.digest[:12]}").trivia.comment_ws = "  "
    table.append("threshold", threshold)
    if isinstance(chosen.settings, Cosine | Prompted):
        table["model"] = chosen.settings.model
        table.append("calibrated_with", chosen.settings.calibrated_with)
    if isinstance(chosen.settings, GramLogistic) and chosen.settings.weights is not None:
        weights = tomlkit.table()
        weights.update(chosen.settings.weights.model_dump(mode="json"))
        table["weights"] = weights
    parse_profile(document.unwrap(), target)
    write_atomically(target, tomlkit.dumps(document))


def words_of(settings: BaselineSettings) -> str:
    """What was chosen, in words."""
    n = f" with n {settings.n}" if isinstance(settings, CharNgrams) else ""
    return f"{settings.kind}{n}, threshold {_threshold(settings):.6f}"
