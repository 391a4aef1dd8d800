"""PyTerrier's transformers: search with DAAC, and rerank with SCDG; both compute what the command ``run`` computes.

Example:
    >>> from pan_scdg.pyterrier import Daac, Scdg
    >>> pipeline = Daac("examples/pan26-retrieval", "out/index") % 20 >> Scdg("offline")
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pan_scdg.errors import UserError, need_packages
from pan_scdg.jobs.options import RunOptions, choose_device
from pan_scdg.jobs.retrieval import retrieve_sources
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import QUERIES_NAME, Corpus, find_corpus
from pan_scdg.pan.untrusted import check_id
from pan_scdg.profile import Profile, load_profile
from pan_scdg.results.files import CANDIDATE_SCORES, read_lines
from pan_scdg.results.records import CandidateLine
from pan_scdg.retrieval.ranking import DEPTH

need_packages("terrier", "pyterrier")

import pyterrier as pt  # noqa: E402 - the error above names the extra

if TYPE_CHECKING:
    from pandas import DataFrame

CORPUS, RUN = "corpus.jsonl", "first-stage.txt"
Scores = dict[tuple[str, str], float]
"""By query and document, best first."""


class _Transformer(pt.Transformer):  # type: ignore[misc]
    """Writes what it is given as an input of ``run``, and reads the result."""

    def __init__(self, profile: str | Path | Profile, device: str, folder: str | Path | None) -> None:
        self._name = str(profile.name if isinstance(profile, Profile) else profile)
        self._profile = profile if isinstance(profile, Profile) else load_profile(str(profile))
        self._profile.need_retrieval()
        self._device = choose_device(self._profile, device)
        self._folder = None if folder is None else Path(folder)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    @contextmanager
    def _open_folder(self, texts: str) -> Iterator[Path]:
        """Open the folder of this profile and these texts; without a folder of the user a temporary one."""
        if self._folder is None:
            with TemporaryDirectory(prefix="pan_scdg-") as name:
                yield Path(name)
        else:
            of_profile = json.dumps(self._profile.model_dump(mode="json"), sort_keys=True)
            path = self._folder / hashlib.sha256((of_profile + texts).encode()).hexdigest()[:16]
            (path / "input").mkdir(parents=True, exist_ok=True)
            yield path

    def _run(self, folder: Path, profile: Profile, **options: Any) -> Scores:
        """Run on the input in a folder and return the scores of its result, where that is not complete already."""
        output = folder / "result"
        retrieve_sources(profile, RunOptions(folder / "input", output, self._device, **options))
        lines = read_lines(output / CANDIDATE_SCORES, CandidateLine.from_json, "run again")
        return _part_equal({(one.query, one.document): one.coarse if one.final is None else one.final for one in lines})


class Scdg(_Transformer):
    """Reranks documents: from ``qid, query, docno, text`` to ``score`` and ``rank``.

    The ``score`` of a first stage, if there is one, is the coarse score. All documents are scored, whatever
    ``retrieval.scored`` says: cut before, as in ``bm25 % 20 >> Scdg()``.

    Args:
        profile: a bundled profile's name, a profile file, or a `Profile` that ranks sources.
        device: "auto", "cpu" or "cuda".
        folder: where inputs and results are kept, so that a stopped experiment continues; None: nothing is kept.

    Raises:
        UserError: the profile or the device is not usable, or ranks by its first stage alone.
    """

    def __init__(
        self, profile: str | Path | Profile = "offline", *, device: str = "auto", folder: str | Path | None = None
    ) -> None:
        super().__init__(profile, device, folder)
        settings = self._profile.need_retrieval()
        if not settings.rerank:
            raise UserError(f"profile {self._name} ranks by the first stage alone", "choose another, or use Daac")
        self._all = self._profile.model_copy(update={"retrieval": settings.model_copy(update={"scored": None})})

    def transform(self, inp: "DataFrame") -> "DataFrame":
        """Return the documents of each query with their scores and ranks, best first.

        Raises:
            KeyError: a column is missing.
            UserError: an id or a text is not usable, or a query has more documents than are ranked.
        """
        _require_columns(inp, "qid", "query", "docno", "text")
        if not len(inp):
            return _add_scores(inp, {})
        if (most := int(inp.groupby("qid").size().max())) > DEPTH:
            raise UserError(f"a query has {most} documents", f"cut the first stage: % {DEPTH} >> Scdg()")
        coarse = inp["score"] if "score" in inp.columns else [0.0] * len(inp)
        queries = _format_lines(inp, "qid", "query")
        documents = _format_lines(inp, "docno", "text")
        rows = zip(inp["qid"], inp["docno"], coarse)
        run = "".join(f"{qid} Q0 {docno} 0 {float(score)!r} first-stage\n" for qid, docno, score in rows)
        with self._open_folder(queries + documents + run) as folder:
            (folder / "input").mkdir(exist_ok=True)
            for name, text in ((QUERIES_NAME, queries), (CORPUS, documents)):
                (folder / "input" / name).write_text(text, encoding="utf-8")
            (folder / RUN).write_text(run, encoding="utf-8")
            return _add_scores(inp, self._run(folder, self._all, candidates=folder / RUN))


class Daac(_Transformer):
    """Searches an index with the first stage of a profile: from ``qid, query`` to documents with their texts.

    Args:
        corpus: folder of the corpus, as for the command ``index``.
        index: folder that this command made with the same profile.
        profile: a bundled profile's name, a profile file, or a `Profile`; the first stage of ``offline`` is DAAC.
        device: "auto", "cpu" or "cuda".
        folder: where inputs and results are kept, so that a stopped experiment continues; None: nothing is kept.

    Raises:
        UserError: the profile, the device or the corpus is not usable.
    """

    def __init__(
        self,
        corpus: str | Path,
        index: str | Path,
        profile: str | Path | Profile = "offline",
        *,
        device: str = "auto",
        folder: str | Path | None = None,
    ) -> None:
        super().__init__(profile, device, folder)
        settings = self._profile.need_retrieval()
        self._first = self._profile.model_copy(update={"retrieval": settings.model_copy(update={"rerank": False})})
        self._corpus, self._index = Corpus(Path(corpus), Notices(), self._profile.raw_text), Path(index)
        self._file = find_corpus(Path(corpus))

    def transform(self, inp: "DataFrame") -> "DataFrame":
        """Return the candidates of each query with their texts, scores and ranks, best first.

        Raises:
            KeyError: a column is missing.
            UserError: an id or a text is not usable, or the index is of another corpus or profile.
        """
        import pandas as pd

        _require_columns(inp, "qid", "query")
        scores: Scores = {}
        queries = _format_lines(inp, "qid", "query")
        with self._open_folder(queries + self._corpus.digest) as folder:
            if len(inp) and self._file is not None:
                (folder / "input").mkdir(exist_ok=True)
                (folder / "input" / QUERIES_NAME).write_text(queries, encoding="utf-8")
                if not (link := folder / "input" / self._file.name).exists():
                    link.symlink_to(self._file.resolve())
                scores = self._run(folder, self._first, index=self._index)
        texts = {
            document.doc_id: document.original or document.text
            for document in self._corpus.select({d for _, d in scores})
        }
        found = pd.DataFrame([(*key, texts[key[1]]) for key in scores], columns=["qid", "docno", "text"], dtype=object)
        return _add_scores(inp.drop(columns=["docno", "text"], errors="ignore").merge(found, on="qid"), scores)


def _require_columns(inp: "DataFrame", *names: str) -> None:
    """Raise KeyError if a column is missing, as PyTerrier's own transformers do; UserError if an id is not usable."""
    for name in names:
        if name not in inp.columns:
            found = inp.columns.tolist()
            raise KeyError(f"{name} is a required input column, but not found in input dataframe. Found {found}")
        if name in ("qid", "docno"):
            for text in inp[name].unique():
                if not isinstance(text, str):
                    raise UserError(f"the id {text!r} in the column {name} is no text", "convert it: astype(str)")
                check_id(text, f"column {name}", None)


def _format_lines(inp: "DataFrame", *names: str) -> str:
    """Return the distinct values of columns in JSON Lines."""
    rows = inp[list(names)].drop_duplicates().itertuples(index=False)
    return "".join(json.dumps(dict(zip(names, row))) + "\n" for row in rows)


def _part_equal(scores: Scores) -> Scores:
    """Return scores that decrease within each query by at least the last digit: evaluators order ties differently."""
    import numpy as np

    parted: Scores = {}
    last: dict[str, float] = {}
    for (qid, docno), score in scores.items():
        last[qid] = min(score, float(np.nextafter(np.float32(last.get(qid, np.inf)), np.float32(-np.inf))))
        parted[qid, docno] = last[qid]
    return parted


def _add_scores(inp: "DataFrame", scores: Scores) -> "DataFrame":
    """Return rows with their scores and ranks, the queries in their order, best first."""
    keys = list(zip(inp["qid"], inp["docno"])) if len(inp) else []
    scored = inp.drop(columns=["score", "rank"], errors="ignore").assign(score=[scores[key] for key in keys])
    order = {qid: number for number, qid in enumerate(dict.fromkeys(inp["qid"]))}
    places = sorted(range(len(keys)), key=lambda place: (order[keys[place][0]], -scores[keys[place]]))
    ranked: DataFrame = pt.model.add_ranks(scored.iloc[places].reset_index(drop=True))
    return ranked
