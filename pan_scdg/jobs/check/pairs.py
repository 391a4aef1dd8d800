"""Choose the pairs of a check: all of them, or beyond a limit those that a first stage leaves."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from pan_scdg.errors import UserError
from pan_scdg.jobs.check.texts import Material
from pan_scdg.models.encoding import EncodingActors
from pan_scdg.align.finder import OpenAlignment
from pan_scdg.align.reachable import FirstStage
from pan_scdg.align.scorer import AlignmentScorer
from pan_scdg.profile import PassageSettings, Profile
from pan_scdg.profile.baseline import Alignment
from pan_scdg.progress import Progress
from pan_scdg.records import DocumentPair
from pan_scdg.resources import count_cores
from pan_scdg.store import Store

MOST_PAIRS = 10_000
"""Up to this number all pairs are scored; of more, those that cannot be reuse are left out first."""

Places = tuple[int, int]
"""A suspicious text and a source."""


def list_pairs(material: Material) -> Iterator[Places]:
    """Yield all pairs of different files; in pairs from one folder (--among), the earlier file comes first."""
    if material.among:
        count = len(material.suspicious)
        yield from ((i, j) for i in range(count) for j in range(i + 1, count))
        return
    left, right = _resolve_paths(material)
    yield from ((i, j) for i in range(len(left)) for j in range(len(right)) if left[i] != right[j])


def _resolve_paths(material: Material) -> tuple[list[Path], list[Path]]:
    """Return the files of both sides: one that is on both is no source of itself."""
    left, right = ([text.compared.path.resolve() for text in side] for side in (material.suspicious, material.sources))
    return left, right


def require_first_stage(profile: Profile, pairs: int) -> None:
    """Raise UserError if the method that decides has no first stage that reduces this number of pairs."""
    if not isinstance(profile.baseline, Alignment):  # `FirstStage` bounds its score alone
        raise UserError(
            f"{pairs} pairs are too many for profile {profile.name}: beyond {MOST_PAIRS} there has to be a first stage",
            "use a profile that decides by alignment, such as offline, or check fewer texts at a time",
        )


def encode_texts(material: Material, scorer: AlignmentScorer, store: Store, actors: EncodingActors | None) -> None:
    """Encode each text and store its vectors, with a progress line, since this takes most of the time.

    Without ``actors`` this process encodes.
    """
    texts = sorted({text.compared.text or "" for _, text in material.list_texts()})
    count = (lambda: None) if actors is None else actors.count
    with actors or nullcontext(), Progress("encoding texts", len(texts), count) as progress:
        done = map(scorer.prepare, texts) if actors is None else scorer.store_all(texts, store, actors)
        for _ in done:
            progress.update()


def find_candidates(material: Material, alignment: OpenAlignment, least: float) -> list[Places]:
    """Return the pairs whose score may reach ``least``, in order; every other pair has a lower one."""
    settings, scorer = alignment
    sources = (scorer.prepare(text.compared.text or "") for text in material.sources)
    stage = FirstStage(sources, settings, PassageSettings(), least)
    left, right = _resolve_paths(material)
    found = set[Places]()
    with Progress("first stage", len(material.suspicious)) as progress:
        targets = (scorer.prepare(text.compared.text or "") for text in material.suspicious)
        for i, places in enumerate(stage.find_all(targets, count_cores())):
            for j in places:
                if left[i] != right[j]:
                    found.add((min(i, j), max(i, j)) if material.among else (i, j))
            progress.update()
    return sorted(found)


def make_pairs(material: Material, places: list[Places]) -> list[DocumentPair]:
    """Return the pairs to score; pairs from one folder (--among) in both directions, one after the other."""
    left, right = material.suspicious, material.sources
    if not material.among:
        return [DocumentPair(left[i].compared, right[j].compared) for i, j in places]
    return [DocumentPair(left[a].compared, left[b].compared) for i, j in places for a, b in ((i, j), (j, i))]
