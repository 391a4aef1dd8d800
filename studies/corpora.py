"""Read the data of the studies: text-alignment corpora with truth (PAN25), and clusters of news (Multi-News).

DATA/pan25/      a text-alignment corpus with truth, as its archive unpacks (pan_scdg.pan.layout)
DATA/pan26/      corpus.jsonl[.gz], queries.jsonl, qrels.txt
DATA/multinews/  train.src.cleaned (or train.src, train.src.txt, train.txt.src; .gz)
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pan_scdg.bundled import find_bundled
from pan_scdg.errors import UserError
from pan_scdg.normal_form import compose
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import find_pairs_file, name_detection, read_pairs
from pan_scdg.pan.truth import find_truth, list_truth_files, read_truth
from pan_scdg.pan.untrusted import is_file, stream_lines
from pan_scdg.records import DocumentPair, Passage, Span, TextFile

CLUSTER_FILES = ("train.src.cleaned", "train.src", "train.src.txt", "train.txt.src")
"""Names of the training part's source side, each with or without ``.gz``."""
SEPARATOR, NEWLINE = "|||||", "NEWLINE_CHAR"
ARTICLE_CHARACTERS = (200, 32_000)
"""Fewest and most characters of an article that is paired."""


class DataFolders(NamedTuple):
    """The folders of the data; one that is not needed may be missing."""

    pan25: Path
    pan26: Path
    multinews: Path
    pan25_parts: tuple[str, ...] = ("",)
    """The folders of ``pan25`` whose pairs are joined: of the examples two, of the data itself."""

    @property
    def corpora(self) -> list[Path]:
        """Return the folders with the corpora of ``pan25``."""
        return [self.pan25 / part for part in self.pan25_parts]


def find_data(directory: Path) -> DataFolders:
    """Return the folders in a user's data folder, or raise UserError if it does not exist."""
    if not directory.is_dir():
        raise UserError("the directory does not exist", "correct --data", directory)
    return DataFolders(directory / "pan25", directory / "pan26", directory / "multinews")


def find_examples() -> DataFolders:
    """Return the folders of the bundled examples."""
    examples = find_bundled("examples")
    news = examples / "same-topic-news"
    return DataFolders(examples / "pan25-pairs", examples / "pan26-retrieval", news, ("calibration", "test"))


class TruePair(NamedTuple):
    """A pair of a corpus with its annotations."""

    pair: DocumentPair
    xml: Path | None
    """The truth file; None if the corpus has none for this pair, which counts as negative, as in the paper."""
    passages: tuple[Passage, ...]
    """The annotations that name the pair's own source."""

    @property
    def pair_id(self) -> str:
        """Return the name of the truth file without ``.xml``; the paper does not say how it names pairs."""
        return name_detection(self.pair).removesuffix(".xml")


def read_corpora(directories: Sequence[Path], notices: Notices) -> list[TruePair]:
    """Return all pairs of corpora, in the order of the ``pairs`` files.

    Raises:
        UserError: a directory has no corpus, several or one without truth; or two documents have one name.
    """
    pairs = [pair for directory in directories for pair in _read_corpus(directory, notices)]
    for side in ("suspicious", "source"):
        paths: dict[str, Path] = {}
        for true in pairs:
            file: TextFile = getattr(true.pair, side)
            if (first := paths.setdefault(file.reference, file.path)) != file.path:
                what = f"two {side} documents are named {file.reference}: {first} and {file.path}"
                raise UserError(what, "rename one of them", directories[0])
    return pairs


def _read_corpus(directory: Path, notices: Notices) -> Iterator[TruePair]:
    if find_pairs_file(directory) is None:
        what = "contains no text-alignment corpus"
        raise UserError(what, "give a folder with pairs, susp/, src/ and truth", directory)
    pairs = read_pairs(directory, notices).pairs
    truth = find_truth(directory)
    files = {} if truth is None else list_truth_files(truth)
    annotated = [pair for pair in pairs if compose(name_detection(pair)).text in files]
    if truth is None or not annotated:
        raise UserError("contains no truth file of any pair", "add the XML files, named as the pairs", directory)
    passages = read_truth(truth, annotated)
    for pair in pairs:
        name = compose(name_detection(pair)).text
        if name not in files:
            notices.add("pair without a truth file, labelled negative as in the paper", name)
        xml = files[name][0] if name in files else None
        yield TruePair(pair, xml, passages.get((pair.suspicious.doc_id, pair.source.doc_id), ()))


def collect_reused(corpus: Sequence[TruePair]) -> dict[str, set[Span]]:
    """Return the annotated spans of each suspicious document in all its truth files, by its reference."""
    reused: dict[str, set[Span]] = {}
    for true in corpus:
        spans = {p.target for p in true.passages}
        reused.setdefault(true.pair.suspicious.reference, set()).update(spans)
    return reused


class Cluster(NamedTuple):
    """The articles about one event; its id has the line number, so that ids sort as the lines of the file."""

    cluster_id: str
    articles: Sequence[str]
    """With line ends and without white space around; possibly empty."""

    def list_eligible(self) -> list[int]:
        """Return the positions (from 0) of the articles with 200 to 32,000 characters."""
        fewest, most = ARTICLE_CHARACTERS
        return [place for place, text in enumerate(self.articles) if fewest <= len(text) <= most]


def read_clusters(directory: Path) -> Iterator[Cluster]:
    """Yield the clusters of the only file of `CLUSTER_FILES` in a folder; blank lines count in the ids.

    A line has one cluster. Articles are separated by ``|||||`` and have the word ``NEWLINE_CHAR`` where a line ended;
    the raw files of the dataset's repository have the separator after the last article, too.
    """
    names = [f"{name}{end}" for name in CLUSTER_FILES for end in ("", ".gz")]
    files = [directory / name for name in names if is_file(directory / name)]
    if len(files) != 1:
        what = f"several files of clusters: {', '.join(p.name for p in files)}" if files else "no file of clusters"
        raise UserError(what, f"give one of {', '.join(CLUSTER_FILES)}, with or without .gz", directory)
    for number, line in stream_lines(files[0]):
        if line.strip():
            texts = tuple(text.strip() for text in line.replace(NEWLINE, "\n").split(SEPARATOR))
            yield Cluster(f"cluster-{number:06d}", texts)
