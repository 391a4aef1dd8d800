"""The rankings of the retrieval study, query by query: every route is searched once, whatever the number of rows."""

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.models.encoder import Encoder
from pan_scdg.notices import Notices
from pan_scdg.pan.runs import read_run, run_file
from pan_scdg.profile import RetrievalSettings
from pan_scdg.records import Query
from pan_scdg.research.retrieval.entries import Entry
from pan_scdg.retrieval.candidate_files import read_candidates
from pan_scdg.retrieval.candidates import FirstStage, find_candidates, load_retrieval_encoder
from pan_scdg.retrieval.index import check_catalogue, list_parts
from pan_scdg.store import Store

Stages = Mapping[str, FirstStage]
"""Query -> what was found for it."""
Orders = Mapping[str, Sequence[str]]
"""Query -> documents, the best first."""


class Search(NamedTuple):
    """Where a first stage searches, and with what means."""

    folder: Path
    """The input."""
    corpus: str
    """Digest of its corpus file."""
    ready: Path | None
    """Folder of ready indexes; None: they are made in the store's."""
    device: str
    memory: int
    """Bytes that a dense search may use."""


class GivenRun(NamedTuple):
    """A ranking from elsewhere."""

    stages: dict[str, FirstStage]
    """Its first candidates, which can be reranked."""
    order: dict[str, list[str]]
    """All of it, as evaluators order it."""


def search_all(
    entries: Sequence[Entry], queries: Sequence[Query], search: Search, store: Store
) -> dict[str, dict[str, FirstStage]]:
    """What the first stage of every entry finds, by the entry's name; one encoder is in memory at a time.

    Raises:
        UserError: an encoder is missing, or an index is or cannot be made.
    """
    asked = [(entry.name, entry.settings) for entry in entries if entry.settings is not None]
    found = {}
    for of in dict.fromkeys(_encoder_key(settings) for _, settings in asked):
        alike = [(name, settings) for name, settings in asked if _encoder_key(settings) == of]
        encoder = load_retrieval_encoder(alike[0][1], search.device)
        for name, settings in alike:
            found[name] = _search(settings, queries, encoder, search, store)
        if encoder is not None:
            encoder.release()
    return found


def _encoder_key(settings: RetrievalSettings) -> tuple[str, int] | None:
    if all(route.startswith("bm25") for route in settings.routes):
        return None
    return settings.need_dense().model, settings.need_dense().batch


def _search(
    settings: RetrievalSettings, queries: Sequence[Query], encoder: Encoder | None, search: Search, store: Store
) -> dict[str, FirstStage]:
    if search.ready is not None:
        check_catalogue(search.ready, search.corpus, list_parts(settings, encoder, search.corpus))

    def stages(of: RetrievalSettings, by: Encoder | None) -> dict[str, FirstStage]:
        return find_candidates(search.folder, queries, of, by, store, search.corpus, search.ready, search.memory)

    # route by route, so that one that another row has searched already is not searched again
    for route in settings.routes:
        by = None if route.startswith("bm25") else encoder
        stages(settings.model_copy(update={"routes": (route,), "fusion": "none"}), by)
    return stages(settings, encoder)


def read_given(path: Path, queries: Sequence[Query], settings: RetrievalSettings, notices: Notices) -> GivenRun:
    """A TREC run. What is reranked are its first ``settings.depth`` documents, as with ``run --candidates``.

    Raises:
        UserError: the file is missing or no TREC run.
    """
    stages = read_candidates(path, queries, settings, notices)
    asked = {query.query_id for query in queries}
    run = {query_id: found for query_id, found in read_run(run_file(path)).items() if query_id in asked}
    return GivenRun(stages, {query_id: evaluators_order(found) for query_id, found in run.items()})


def evaluators_order(scored: Sequence[tuple[str, float]]) -> list[str]:
    """The documents as trec_eval ranks them: by score in single precision, equal ones by id, the last id first."""
    with np.errstate(over="ignore"):
        by_id = sorted(((np.float32(score), doc_id) for doc_id, score in scored), reverse=True)
    return [doc_id for _, doc_id in by_id]


def check_documents(run: GivenRun, known: frozenset[str], path: Path) -> None:
    """Raise UserError when a document of a given run is not in the corpus."""
    if unseen := {doc_id for order in run.order.values() for doc_id in order} - known:
        what = f"{len(unseen)} documents are not in the corpus, {min(unseen)!r} for one"
        raise UserError(what, "give a run over this corpus", path)


def not_in(known: Container[tuple[str, str]], stages: Stages, most: int | None = None) -> dict[str, FirstStage]:
    """Of the first ``most`` candidates (None: of all) of every query those that, with the query, are not ``known``."""
    return {
        query_id: FirstStage({}, [c for c in stage.candidates[:most] if (query_id, c.doc_id) not in known])
        for query_id, stage in stages.items()
    }


def order_of(stages: Stages) -> dict[str, list[str]]:
    """The documents of every query in coarse order."""
    return {query_id: [c.doc_id for c in stage.candidates] for query_id, stage in stages.items()}
