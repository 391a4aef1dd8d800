"""Score document pairs by a baseline; stored scores are reused and new ones are stored.

Memory does not depend on the number of texts: one pair at a time is taken from where they are kept (`pan.kept_texts`).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

from pan_scdg.methods.lexical import Collection, hash_collection
from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.logs import say
from pan_scdg.own_files import EXACT, parse_as
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.profile.baseline import MOST_CANDIDATES, BaselineSettings
from pan_scdg.progress import Progress
from pan_scdg.records import DocumentPair, PairScorer, TextFile, TextPair
from pan_scdg.scoring.pair_method import Threshold
from pan_scdg.store import Store, make_key

_NUMBERS = TypeAdapter(list[float], config=EXACT)
LEAST_WORDS = 50
"""A text with fewer words was never part of a calibration."""
STEP = 32
"""Number of pairs whose scores are stored together; a killed run loses at most these."""


class TextFacts(NamedTuple):
    """Hash and length of a text."""

    digest: str
    length: int
    """In characters."""


def read_facts(documents: Iterable[TextFile]) -> tuple[dict[str, TextFacts], dict[str, UserError]]:
    """Return hash and length of every document by its id, and the errors of unreadable documents."""
    distinct = {document.doc_id: document for document in documents}
    facts: dict[str, TextFacts] = {}
    faults: dict[str, UserError] = {}
    with Progress("hashing texts", len(distinct)) as progress:
        for doc_id, document in distinct.items():
            try:
                text = read_text(document)
                facts[doc_id] = TextFacts(hash_text(text), len(text))
            except UserError as e:
                faults[doc_id] = e
            progress.update()
    return facts, faults


def make_collection(sources: Iterable[TextFile], facts: Mapping[str, TextFacts]) -> Collection:
    """Return the collection of the distinct sources that have facts."""
    known = {source.doc_id: source for source in sources if source.doc_id in facts}
    digest = hash_collection(facts[doc_id].digest for doc_id in known)
    return Collection(digest, lambda: (read_text(source) for source in known.values()))


def make_text_key(
    pair: DocumentPair, settings: BaselineSettings, scorer: PairScorer, facts: Mapping[str, TextFacts]
) -> str:
    """Return the store's key of a pair's scores."""
    target, source = pair.suspicious.doc_id, pair.source.doc_id
    # precomputed vectors belong to ids, not to texts
    ids = {"ids": [target, source]} if settings.reads_vectors else {}
    texts = {"target": facts[target].digest, "source": facts[source].digest}
    return make_key("baseline", {"scorer": scorer.identify(), **texts, **ids})


def score_pairs(
    pairs: Sequence[DocumentPair],
    settings: BaselineSettings,
    scorer: PairScorer,
    store: Store,
    facts: Mapping[str, TextFacts],
    scored_in: Path | None = None,
) -> list[tuple[float, ...]]:
    """Return the scorer's values of every pair, in order; missing ones are computed and stored in steps.

    Raises:
        UserError: a pair cannot be scored; values computed before remain stored. Or a value is missing, and
            ``scored_in`` names a shard of those that should hold it.
    """
    keys = [make_text_key(pair, settings, scorer, facts) for pair in pairs]
    store.use(keys)
    known: dict[str, tuple[float, ...]] = {}
    missing: dict[str, DocumentPair] = {}
    for key, pair in zip(keys, pairs, strict=True):
        values = store.read(key, lambda data: _unpack_values(data, scorer))
        if values is None:
            missing[key] = pair
        else:
            known[key] = values
    if missing and scored_in is not None:
        raise UserError(
            "these scores were computed with another [baseline]",
            "give the input, profile and model of `run --scores-only`",
            scored_in,
        )
    if missing:
        known |= _compute_missing(missing, scorer, store)
    return [known[key] for key in keys]


def _compute_missing(
    missing: Mapping[str, DocumentPair], scorer: PairScorer, store: Store
) -> dict[str, tuple[float, ...]]:
    found: dict[str, tuple[float, ...]] = {}
    unstored: list[tuple[str, bytes]] = []
    with Progress("scoring pairs", len(missing)) as progress:
        try:
            for key, values in zip(missing, scorer.score(map(read_texts, missing.values())), strict=True):
                found[key] = values
                unstored.append((key, json.dumps(list(map(float, values))).encode()))
                progress.update()
                if len(unstored) == STEP:
                    store.put(unstored)
                    unstored.clear()
        finally:
            store.put(unstored)
    return found


def read_texts(pair: DocumentPair) -> TextPair:
    """Read the texts of a pair."""
    target, source = pair.suspicious, pair.source
    return TextPair(target.doc_id, source.doc_id, read_text(target), read_text(source))


def warn_about_texts(numbers: Mapping[str, float]) -> list[str]:
    """Return the warnings about the texts of an alignment: too short, too long, or quoting; none for other methods."""
    warnings = []
    if numbers.get("words", LEAST_WORDS) < LEAST_WORDS:
        warnings.append(f"unclear: the suspicious document has {numbers['words']:.0f} words, fewer than {LEAST_WORDS}")
    elif numbers.get("candidates", 0) > MOST_CANDIDATES:
        warnings.append("long: in texts longer than those of the calibration, chance matches are more frequent")
    if count := int(numbers.get("left_out", 0)):
        lie = "passage that does not count lies" if count == 1 else "passages that do not count lie"
        warnings.append(f"{count} {lie} in quotations or lists of references")
    return warnings


def settle_threshold(settings: BaselineSettings, fingerprint: str) -> Threshold:
    """Return the threshold as far as it applies to this model's scores; a warning is logged if it does not."""
    if settings.threshold is None:
        return Threshold(None)
    if (known := settings.threshold_model) not in (None, fingerprint):
        say(
            [
                f"warning: nothing is decided: the profile was calibrated with a model {str(known)[:40]}, and this "
                f"one is {fingerprint[:40]}; calibrate with this model, or use that one"
            ]
        )
        return Threshold(None)
    return Threshold(settings.threshold, settings.measured_noise)


def _unpack_values(data: bytes, scorer: PairScorer) -> tuple[float, ...]:
    values = parse_as(data, _NUMBERS)
    if len(values) != len(scorer.features):
        raise ValueError(f"{len(values)} values of a pair, expected {len(scorer.features)}")
    return tuple(values)
