"""Choose the rows of the retrieval study: first stages of profiles, and runs from elsewhere."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pan_scdg.digests import hash_file
from pan_scdg.errors import UserError
from pan_scdg.pan.runs import find_run
from pan_scdg.profile import Profile, RetrievalSettings, Route, load_profile
from pan_scdg.profile.retrieval import DAAC_ROUTES

PAPER_ENCODER = "Linq-Embed-Mistral"
"""A profile with this encoder belongs to the paper's family: its default rows are the paper's."""
PAPER_ROWS = {
    "BM25-full": "pan26-bm25-full",
    "BM25-sentence": "pan26-bm25-sentence",
    "BGE-M3 Dense-full": "pan26-bge-m3-full",
    "BGE-M3 Dense-sentence": "pan26-bge-m3-sentence",
    "Four-way CombSUM": "pan26-combsum",
    "Linq sentence-to-chunk dense": "pan26-linq-sentence",
    "Three-route RRF": "pan26-rrf",
    "DAAC": "pan26-daac",
}
"""The paper's first-stage rows in its order, and their profiles."""
RERANKED = ("Three-route RRF", "DAAC")
FIRST_STAGE = ("routes", "fusion", "bm25", "dense", "depth")
"""The fields that candidates depend on."""
FOUR_WAYS: tuple[Route, ...] = ("bm25-full", "bm25-sentence", "dense-full", "dense-sentence")


@dataclass(frozen=True)
class Ranking:
    """A ranking of the study: the first stage of a profile, or a run."""

    name: str
    settings: RetrievalSettings | None = None
    run: Path | None = None
    reranked: bool = False
    """Its candidates are reranked, which is the row below."""

    def searches_as(self, settings: RetrievalSettings) -> bool:
        """Return True if its first stage is that of these settings."""
        return self.settings is not None and all(
            getattr(self.settings, name) == getattr(settings, name) for name in FIRST_STAGE
        )

    def identify(self) -> dict[str, Any]:
        """Return everything that it depends on, as JSON values."""
        first_stage = {} if self.settings is None else {"first_stage": self.settings.model_dump(mode="json")}
        run = {} if self.run is None else {"run_sha256": hash_file(find_run(self.run))}
        return {"name": self.name, "reranked": self.reranked, **first_stage, **run}


def list_defaults(profile: Profile) -> list[Ranking]:
    """Return the rows of a profile's family: the paper's eight, or the same with the profile's engines and encoder.

    The latter need no model that the profile does not have. A profile without dense routes has the two rows of BM25,
    and the second is reranked. Without a language model none is.
    """
    settings, can_rerank = profile.need_retrieval(), profile.model is not None
    if settings.dense is not None and settings.dense.model == PAPER_ENCODER:
        shipped = {name: load_profile(file).need_retrieval() for name, file in PAPER_ROWS.items()}
        return [Ranking(name, found, reranked=can_rerank and name in RERANKED) for name, found in shipped.items()]

    def make_row(name: str, routes: Sequence[Route], fusion: str = "none") -> Ranking:
        found = settings.model_copy(update={"routes": tuple(routes), "fusion": fusion, "rerank": False})
        return Ranking(name, found, reranked=can_rerank and name in RERANKED)

    lexical = [make_row("BM25-full", ["bm25-full"]), make_row("BM25-sentence", ["bm25-sentence"])]
    if settings.dense is None:
        return [lexical[0], replace(lexical[1], reranked=can_rerank)]
    return [
        *lexical,
        make_row("Dense-full", ["dense-full"]),
        make_row("Dense-sentence", ["dense-sentence"]),
        make_row("Four-way CombSUM", FOUR_WAYS, "combsum"),
        make_row("Three-route RRF", DAAC_ROUTES, "rrf"),
        make_row("DAAC", DAAC_ROUTES, "daac"),
    ]


def make_profile_row(row: Profile, profile: Profile) -> Ranking:
    """Return the row of a profile, which is reranked if the profile reranks.

    Raises:
        UserError: it is no profile of retrieval, or reranks with another model than ``profile``.
    """
    settings = row.need_retrieval()
    if settings.rerank and (wanted := row.need_model().name) != (ours := profile.need_model().name):
        raise UserError(
            f"the row {row.name} reranks with {wanted}, but the gains are those of {ours}",
            "choose a profile of its first stage alone and name it with --rerank, or another --profile",
        )
    return Ranking(row.name, settings, reranked=settings.rerank)


def choose_rows(
    firsts: Sequence[Ranking], runs: Mapping[str, Path], rerank: Iterable[str], search_on: str | None
) -> tuple[list[Ranking], str | None]:
    """Return all rows in order, runs first, and the name of the one on which the grid is searched.

    The paper says of the latter only that the stronger first stages were not searched again. Here it is ``search_on``,
    which is reranked then, else RRF, else the first that is reranked; None if none is.

    Raises:
        UserError: there is no row, two have one name, or a name is unknown.
    """
    rows = [*(Ranking(name, run=run) for name, run in runs.items()), *firsts]
    names = [row.name for row in rows]
    if not rows:
        raise UserError("no ranking to study was given", "give --row or --run, or leave out --no-default-rows")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"two rows are named {twice[0]!r}", "rename a run, or leave out a row")
    wanted = {*rerank, *([] if search_on is None else [search_on])}
    if unknown := sorted(wanted - set(names)):
        raise UserError(f"unknown row {unknown[0]!r}", f"choose one of {', '.join(names)}")
    rows = [replace(row, reranked=row.reranked or row.name in wanted) for row in rows]
    candidates = [row for row in rows if row.reranked]
    by_rrf = [row.name for row in candidates if row.settings is not None and row.settings.fusion == "rrf"]
    return rows, search_on or next(iter([*by_rrf, *(row.name for row in candidates)]), None)
