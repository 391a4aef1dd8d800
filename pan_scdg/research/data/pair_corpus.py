"""The documents behind a manifest: one text-alignment corpus with truth, or several side by side.

A folder without ``pairs`` whose subfolders have them is several corpora; their document names must differ, since a
manifest names documents and no folders.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import detection_name, pairs_file, read_pairs, read_text
from pan_scdg.pan.truth import find_truth, read_truth, truth_files
from pan_scdg.pan.untrusted import list_directory
from pan_scdg.progress import Progress
from pan_scdg.records import DocumentPair, Passage, TextFile
from pan_scdg.research.data.pair_manifest import MOST_TOKENS, ExcludedPair, PairRecord, bare_name

NO_TRUTH = "pair without a truth file, labelled negative as in the paper"


class TruePair(NamedTuple):
    """A pair of a corpus and what its truth says of it."""

    pair: DocumentPair
    xml: Path | None
    """None: there is no truth file of this name."""
    passages: tuple[Passage, ...]
    """Those of the pair's own source."""

    @property
    def xml_name(self) -> str:
        """The name that the truth file has or would have."""
        return detection_name(self.pair)

    @property
    def pair_id(self) -> str:
        """The name of the truth file without ``.xml``; the paper does not say how it names pairs."""
        return self.xml_name.removesuffix(".xml")


def read_corpora(directory: Path, notices: Notices) -> list[TruePair]:
    """All pairs of the corpora in ``directory`` with their truth, in the order of the ``pairs`` files.

    Raises:
        UserError: there is no corpus, one has no truth, a truth file is damaged, or two corpora have documents of one
            name.
    """
    found = [pair for folder in _folders(directory) for pair in _read_corpus(folder, notices)]
    for side in ("suspicious", "source"):
        paths: dict[str, Path] = {}
        for true in found:
            file: TextFile = getattr(true.pair, side)
            if paths.setdefault(file.reference, file.path) != file.path:
                raise UserError(
                    f"two {side} documents are named {file.reference}: {paths[file.reference]} and {file.path}",
                    "rename one of them",
                    directory,
                )
    return found


def _folders(directory: Path) -> list[Path]:
    if pairs_file(directory) is not None:
        return [directory]
    found = [path for path in list_directory(directory) if path.is_dir() and pairs_file(path) is not None]
    if not found:
        raise UserError("holds no text-alignment corpus", "give a folder with pairs, susp/, src/ and truth", directory)
    return found


def _read_corpus(directory: Path, notices: Notices) -> Iterator[TruePair]:
    corpus = read_pairs(directory, notices)
    truth = find_truth(directory)
    if truth is None:
        raise UserError("there is no truth beside the pairs", "add the folder with the XML files", directory)
    files = truth_files(truth)
    having = [pair for pair in corpus.pairs if detection_name(pair) in files]
    if not having:
        raise UserError("holds no truth file of any pair", "add the XML files, named as the pairs", truth)
    passages = read_truth(truth, having)
    for pair in corpus.pairs:
        name = detection_name(pair)
        if name not in files:
            notices.add(NO_TRUTH, name)
        xml = files[name][0] if name in files else None
        yield TruePair(pair, xml, passages.get((pair.suspicious.doc_id, pair.source.doc_id), ()))


def make_manifest(
    corpus: Sequence[TruePair], count: Callable[[str], int], most_tokens: int = MOST_TOKENS
) -> tuple[tuple[PairRecord, ...], tuple[ExcludedPair, ...]]:
    """The manifest of a corpus and the pairs that are too long for it.

    Args:
        corpus: the pairs with their truth.
        count: the number of tokens of a text; called once for each document.
        most_tokens: of both documents of a pair together.

    Raises:
        UserError: a document cannot be read.
    """
    files = {file.path: file for true in corpus for file in (true.pair.suspicious, true.pair.source)}
    tokens: dict[Path, int] = {}
    with Progress("counting tokens", len(files)) as progress:
        for path, file in files.items():
            tokens[path] = count(read_text(file))
            progress.update()
    records, excluded = [], []
    for true in corpus:
        susp, src = tokens[true.pair.suspicious.path], tokens[true.pair.source.path]
        if susp + src > most_tokens:
            reason = f"more than {most_tokens} tokens"
            excluded.append(ExcludedPair(true.pair_id, susp, src, susp + src, reason))
        else:
            records.append(_record(true, susp, src))
    return tuple(records), tuple(excluded)


def _record(true: TruePair, susp_tokens: int, src_tokens: int) -> PairRecord:
    return PairRecord(
        pair_id=true.pair_id,
        susp_file=true.pair.suspicious.reference,
        src_file=true.pair.source.reference,
        xml_file=true.xml_name,
        xml_exists=true.xml is not None,
        doc_label=1 if true.passages else 0,
        num_annotations_for_pair=len(true.passages),
        annotations=tuple(dict(passage._asdict()) for passage in true.passages),
        susp_tokens=susp_tokens,
        src_tokens=src_tokens,
        total_tokens=susp_tokens + src_tokens,
    )


class NamesDocuments(Protocol):
    """A record of a manifest that names the documents of a pair."""

    @property
    def pair_id(self) -> str:
        """The pair's name."""
        ...

    @property
    def susp_file(self) -> str:
        """The name of the suspicious document."""
        ...

    @property
    def src_file(self) -> str:
        """The name of the source."""
        ...


class PairDocuments:
    """Finds the texts of a manifest's pairs in the corpora that it was made from.

    Args:
        corpus: from `read_corpora`.
    """

    def __init__(self, corpus: Iterable[TruePair]) -> None:
        self._files: dict[tuple[str, str], TextFile] = {}
        for true in corpus:
            self._files["susp", true.pair.suspicious.reference] = true.pair.suspicious
            self._files["src", true.pair.source.reference] = true.pair.source

    def check(self, records: Iterable[NamesDocuments], where: Path) -> None:
        """Raise UserError when the corpora lack a document that the manifest in the file ``where`` names."""
        wanted = {key for record in records for key in _keys(record)}
        if missing := sorted(wanted - self._files.keys()):
            raise UserError(
                f"{len(missing)} documents of the manifest are not in the data, {missing[0][1]} first",
                "add them, or take the manifest of this data",
                where,
            )

    def pair(self, record: NamesDocuments) -> DocumentPair:
        """The files of a pair; no line of a ``pairs`` file, but the manifest names it.

        Raises:
            UserError: a document is missing.
        """
        for key in _keys(record):
            if key not in self._files:
                raise UserError(f"there is no document {key[1]!r} in the data", "add it", record.pair_id)
        susp, src = (self._files[key] for key in _keys(record))
        return DocumentPair(susp, src, 0)

    def texts(self, record: NamesDocuments) -> tuple[str, str]:
        """The suspicious and the source text of a pair.

        Raises:
            UserError: a document is missing or cannot be read.
        """
        pair = self.pair(record)
        return read_text(pair.suspicious), read_text(pair.source)


def _keys(record: NamesDocuments) -> tuple[tuple[str, str], tuple[str, str]]:
    """Side and bare name of both documents, whatever folder the manifest puts in front of them."""
    return ("susp", bare_name(record.susp_file)), ("src", bare_name(record.src_file))
