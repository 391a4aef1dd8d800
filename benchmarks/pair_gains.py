"""Sets of labelled pairs, and the log-probabilities of their targets in all three contexts, kept in the store.

Every form of SCDG is computed from these arrays: with another aggregation or control nothing is scored again.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.development.compose import Pair
from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError, UserErrors
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_pairs, read_text
from pan_scdg.pan.truth import find_truth, read_truth
from pan_scdg.profile import PairSettings
from pan_scdg.progress import Progress
from pan_scdg.scdg.sequences import AlignmentError, build_pair_passes
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import Mode, make_pair_key
from pan_scdg.scoring.passes import PairText, PassScorer
from pan_scdg.store import Store, make_key, pack_array, unpack_array

BUILD = "python -m benchmarks.development.build --data DATA --out pairs.jsonl"
ALL = "all"
Array = npt.NDArray[np.float32]


class QualitySet(NamedTuple):
    """Pairs that share a table; ``kind`` of each pair is its column."""

    name: str
    pairs: tuple[Pair, ...]

    @property
    def labels(self) -> npt.NDArray[np.bool_]:
        """Return True for reuse, ``[pairs]``."""
        return np.array([bool(p.label) for p in self.pairs])

    @property
    def texts(self) -> list[tuple[str, str]]:
        """Return target and source of each pair."""
        return [(p.target, p.source) for p in self.pairs]

    def groups(self) -> dict[str, npt.NDArray[np.bool_]]:
        """Kind -> which pairs are of it; then ``all``, where there are several kinds."""
        kinds = np.array([p.kind for p in self.pairs])
        masks = {kind: kinds == kind for kind in dict.fromkeys(p.kind for p in self.pairs)}
        return masks if len(masks) == 1 else {**masks, ALL: np.ones(len(kinds), dtype=np.bool_)}

    def counts(self) -> dict[str, list[int]]:
        """Kind -> positive and negative pairs."""
        labels = self.labels
        return {kind: [int(labels[mask].sum()), int((~labels[mask]).sum())] for kind, mask in self.groups().items()}


def development_set(file: Path) -> QualitySet:
    """The pairs that ``benchmarks.development.build`` wrote."""
    try:
        # Not splitlines(), which also cuts at separators inside a text.
        lines = file.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        return QualitySet("development", tuple(Pair(**json.loads(line)) for line in lines))
    except (OSError, ValueError, TypeError) as e:
        raise UserError(f"no list of development pairs: {e}", f"build it: {BUILD}", file) from e


def folder_set(name: str, folders: Mapping[str, Path]) -> QualitySet:
    """Pairs in the official layout, each folder a kind; truth lies in the folder or beside it."""
    pairs = []
    for kind, folder in folders.items():
        corpus = read_pairs(folder, Notices())
        truth = read_truth(find_truth(folder) or folder.parent / "truth", corpus.pairs)
        for p in corpus.pairs:
            ids = (p.suspicious.doc_id, p.source.doc_id)
            pairs.append(Pair("-".join(ids), kind, int(bool(truth[ids])), read_text(p.source), read_text(p.suspicious)))
    return QualitySet(name, tuple(pairs))


def at_most(quality: QualitySet, most: int | None) -> QualitySet:
    """``most`` pairs of each kind and label, in the order of ids.

    They are taken by the digests of the ids without their last part: the first ids of a kind are alike, the heavy
    paraphrases of one field for instance, and a positive comes with the negative made with it.
    """
    taken: dict[tuple[str, int], int] = defaultdict(int)
    kept = []
    for pair in sorted(quality.pairs, key=lambda p: (hash_text(p.id.rpartition("/")[0]), p.id)):
        taken[pair.kind, pair.label] += 1
        if most is None or taken[pair.kind, pair.label] <= most:
            kept.append(pair)
    return quality._replace(pairs=tuple(sorted(kept)))


class PairGains(NamedTuple):
    """The target's log-probabilities alone, after the source, after the shuffled source, each ``[n]``."""

    unconditional: Array
    conditional: Array
    shuffled: Array


def pair_gains(
    name: str, pairs: Sequence[Pair], model: ScoringModel, settings: PairSettings, store: Store
) -> Iterator[PairGains]:
    """The arrays of every pair, in order, one at a time; ``name`` is what the progress bar calls the set.

    Raises:
        UserErrors: naming every pair that cannot be scored, before any is.
    """
    controlled = settings.model_copy(update={"control": "shuffled-source"})
    modes = pair_modes(pairs, model, controlled)
    scorer = PassScorer(model, store)
    with Progress(f"scoring {name}", len(pairs)) as progress:
        for pair, mode in zip(pairs, modes):
            before = scorer.model.tokens
            yield _pair(pair, mode, scorer, controlled, store)
            progress.update(tokens=scorer.model.tokens - before)


def _pair(pair: Pair, mode: Mode, scorer: PassScorer, settings: PairSettings, store: Store) -> PairGains:
    texts = (pair.source, pair.target, mode, scorer.model, settings)
    key = make_key("benchmark log-probabilities", {"pair": make_pair_key(*texts)})
    stored = store.get(key)
    if stored is None:
        text = PairText(pair.source, pair.target, mode == "segments")
        gains = scorer.compute_gains(text.make_passes(scorer.model.tokenizer, settings))
        if gains.control is None:
            raise ValueError("the passes have no shuffled source")
        stored = pack_array(np.stack([gains.unconditional, gains.conditional, gains.control]).astype(np.float32))
        store.put([(key, stored)])
    return PairGains(*unpack_array(stored))


def pair_modes(pairs: Sequence[Pair], model: ScoringModel, settings: PairSettings) -> list[Mode]:
    """Return the mode in which each pair is scored: whole up to the profile's limit, else in segments.

    Raises:
        UserErrors: naming every pair that cannot be scored.
    """
    modes: list[Mode] = []
    errors = []
    with Progress("checking pairs", len(pairs)) as progress:
        for pair in pairs:
            try:
                modes.append(_mode(pair, model, settings))
            except AlignmentError as e:
                errors.append(UserError(f"pair {pair.id}: {e}", "leave it out"))
            progress.update()
    if errors:
        raise UserErrors(errors)
    return modes


def _mode(pair: Pair, model: ScoringModel, settings: PairSettings) -> Mode:
    length = build_pair_passes(model.tokenizer, pair.source, pair.target).conditional.length
    if length <= settings.limit:
        return "whole"
    if settings.over_long == "segments":
        return "segments"
    raise AlignmentError(f"{length} tokens, the profile's limit is {settings.limit}")
