"""Choose the threshold of a baseline, and its n or weights, on pairs with truth."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tomlkit

from pan_scdg.baselines.cosine import choose_official_threshold
from pan_scdg.errors import UserError, UserErrors
from pan_scdg.evaluation.logistic import fit_logistic
from pan_scdg.evaluation.pairs import compute_pair_metrics
from pan_scdg.jobs.calibrate import LEFT_OUT, REMEDY, Calibrated, LabelledPairs, describe_quality
from pan_scdg.jobs.requests import Computing
from pan_scdg.jobs.shards import Shards
from pan_scdg.logs import say
from pan_scdg.models.find import describe_models
from pan_scdg.notices import Notices
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
from pan_scdg.records import TextFile
from pan_scdg.scdg.decision import choose_threshold
from pan_scdg.scoring.baseline_parts import BaselineParts, find_parts, need_baseline, refuse_unused
from pan_scdg.scoring.baseline_scoring import (
    TextFacts,
    choose_scores,
    make_collection,
    make_text_key,
    read_facts,
    score_pairs,
)
from pan_scdg.scoring.pair_plan import OnError
from pan_scdg.store import Store


class _Scoring(NamedTuple):
    """Scores the pairs with any settings of the method."""

    known: LabelledPairs
    sources: Sequence[TextFile]
    """All of the input, for collection statistics."""
    facts: dict[str, TextFacts]
    parts: BaselineParts
    store: Store
    scored_in: Path | None = None
    """A folder of the shards that hold all scores; None: scores are computed."""

    def score(self, settings: BaselineSettings) -> list[tuple[float, ...]]:
        scorer = self.parts.make_scorer(settings, make_collection(self.sources, self.facts), self.store)
        if self.scored_in is not None:
            keys = (make_text_key(pair, scorer, self.facts) for pair in self.known.pairs)
            if any(self.store.get(key) is None for key in keys):
                raise UserError("these scores were computed with another [baseline]", REMEDY, self.scored_in)
        return score_pairs(self.known.pairs, scorer, self.store, self.facts)


def calibrate_baseline(
    profile: Profile,
    known: LabelledPairs,
    computing: Computing,
    notices: Notices,
    scores: Path,
    vectors: Path | None = None,
    *,
    limit: int | None = None,
    shards: Shards | None = None,
    on_error: OnError = "stop",
) -> Calibrated:
    """Choose the threshold of a baseline, and its n or weights.

    The threshold of a cosine is chosen as in the official baseline, which the paper uses; every other one by the
    paper's rule: unique scores, F1, ties by accuracy. The n of character n-grams is chosen together with the threshold,
    like q; the larger n wins ties. A logistic model is first fitted on the same pairs.

    Args:
        profile: has a baseline.
        known: all pairs of the input.
        computing: model folder and device.
        notices: collects unusual findings.
        scores: the folder of the store.
        vectors: folder of document vectors, if the baseline needs them.
        limit: choose on the first pairs; None: on all. Shards have their own.
        shards: the scores of the pairs, from ``run --scores-only``; None: they are computed.
        on_error: "negative": pairs whose texts cannot be read are left out. Shards have their own.

    Raises:
        UserError: a text cannot be read, a model or vectors are missing, a prompted baseline lacks a state folder, or
            the shards are of other pairs, another model or other settings.
    """
    settings = need_baseline(profile)
    if isinstance(settings, Prompted) and computing.state is None and shards is None:
        raise UserError("answers of the model would be lost if this run stopped", "give a folder for them with --state")
    refuse_unused(settings, {"--engine reference": computing.engine == "reference"})
    sources = [pair.source for pair in known.pairs]
    if shards is not None:
        limit, on_error = shards.job.get("limit"), shards.job["on_error"]
    known = known.take_first(limit)
    documents = [document for pair in known.pairs for document in (pair.suspicious, pair.source)]
    ids = sorted({document.doc_id for document in documents})
    parts = find_parts(settings, computing.device, ids, vectors=vectors, model=computing.model, state=computing.state)
    if shards is not None:
        _check_shards(shards, known, parts)
    facts, faults = read_facts([*documents, *sources])
    if faults and on_error == "stop":
        raise UserErrors(list(faults.values()))
    known = _leave_out(known, facts, notices)
    if parts.places:
        say([describe_models(list(parts.places.values()))])
    scored_in = None if shards is None else shards.folders[0]
    with Store(scores) as store:
        if shards is not None:
            shards.restore(store)
        chosen, decisive = _choose(settings, _Scoring(known, sources, facts, parts, store, scored_in))
    if isinstance(chosen, ModelBaseline):
        given = parts.places.get("language_model")
        name = {"model": given.name} if given is not None and given.where == "--model" else {}
        chosen = chosen.model_copy(update={"calibrated_with": parts.fingerprint, **name})
    return _describe(chosen, decisive, known)


def _check_shards(shards: Shards, known: LabelledPairs, parts: BaselineParts) -> None:
    """Raise UserError if shards are of another input or of other models."""
    job, models = shards.job, json.loads(json.dumps(parts.identity))
    differs = ["input"] if job["task"] != "pairs" or job["input"] != known.digest else []
    differs += [name.replace("_", " ") for name, of in models.items() if job["models"].get(name) != of]
    if differs:
        raise UserError(f"these scores were computed with another {differs[0]}", REMEDY, shards.folders[0])


def _leave_out(known: LabelledPairs, facts: Mapping[str, TextFacts], notices: Notices) -> LabelledPairs:
    """Return the pairs whose texts could be read."""
    kept = [pair.suspicious.doc_id in facts and pair.source.doc_id in facts for pair in known.pairs]
    for pair, is_kept in zip(known.pairs, kept, strict=True):
        if not is_kept:
            notices.add(LEFT_OUT, str(pair.suspicious.path))
    pairs = tuple(pair for pair, is_kept in zip(known.pairs, kept, strict=True) if is_kept)
    return known._replace(pairs=pairs, labels=known.labels[np.array(kept, dtype=bool)])


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
