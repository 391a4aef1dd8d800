"""Read text-alignment corpora with their truth, one or several side by side.

A folder without ``pairs`` whose subfolders have one each is several corpora. Their document names must differ, since a
manifest names documents and no folders.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import find_pairs_file, name_detection, read_pairs, read_text
from pan_scdg.pan.truth import find_truth, list_truth_files, read_truth
from pan_scdg.pan.untrusted import list_directory
from pan_scdg.records import DocumentPair, Passage, TextFile

NO_TRUTH = "pair without a truth file, labelled negative as in the paper"
Names = tuple[str, str]
"""The names of the suspicious and the source document of a pair; a folder in front of them is ignored."""


class TruePair(NamedTuple):
    """A pair of a corpus with its annotations."""

    pair: DocumentPair
    xml: Path | None
    """The truth file; None if the corpus has none of this name."""
    passages: tuple[Passage, ...]
    """The annotations that name the pair's own source."""

    @property
    def xml_name(self) -> str:
        """Return the name that the truth file has or would have."""
        return name_detection(self.pair)

    @property
    def pair_id(self) -> str:
        """Return the name of the truth file without ``.xml``; the paper does not say how it names pairs."""
        return self.xml_name.removesuffix(".xml")


def read_corpora(directory: Path, notices: Notices) -> list[TruePair]:
    """Return all pairs of the corpora in ``directory`` with their truth, in the order of the ``pairs`` files.

    Raises:
        UserError: no corpus exists, one has no truth, a truth file is damaged, or two corpora have documents of one
            name.
    """
    found = [pair for folder in _find_corpora(directory) for pair in _read_corpus(folder, notices)]
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


def _find_corpora(directory: Path) -> list[Path]:
    if find_pairs_file(directory) is not None:
        return [directory]
    found = [path for path in list_directory(directory) if path.is_dir() and find_pairs_file(path) is not None]
    if not found:
        raise UserError(
            "contains no text-alignment corpus", "give a folder with pairs, susp/, src/ and truth", directory
        )
    return found


def _read_corpus(directory: Path, notices: Notices) -> Iterator[TruePair]:
    corpus = read_pairs(directory, notices)
    truth = find_truth(directory)
    if truth is None:
        raise UserError("no truth was found in the input folder", "add the folder with the XML files", directory)
    files = list_truth_files(truth)
    annotated = [pair for pair in corpus.pairs if name_detection(pair) in files]
    if not annotated:
        raise UserError("contains no truth file of any pair", "add the XML files, named as the pairs", truth)
    passages = read_truth(truth, annotated)
    for pair in corpus.pairs:
        name = name_detection(pair)
        if name not in files:
            notices.add(NO_TRUTH, name)
        xml = files[name][0] if name in files else None
        yield TruePair(pair, xml, passages.get((pair.suspicious.doc_id, pair.source.doc_id), ()))


def drop_folder(file: str) -> str:
    """Return the name of a document without the folder that a manifest puts in front of it."""
    return file.rpartition("/")[2]


class PairDocuments:
    """The documents of some corpora, found by the names in a manifest.

    Args:
        corpus: from `read_corpora`.
    """

    def __init__(self, corpus: Iterable[TruePair]) -> None:
        pairs = [true.pair for true in corpus]
        self._suspicious = {pair.suspicious.reference: pair.suspicious for pair in pairs}
        self._sources = {pair.source.reference: pair.source for pair in pairs}

    def check(self, pairs: Iterable[Names], where: Path) -> None:
        """Raise UserError if the corpora lack a document that the manifest in the file ``where`` names."""
        names = [(drop_folder(susp), drop_folder(src)) for susp, src in pairs]
        missing = sorted({susp for susp, _ in names} - self._suspicious.keys())
        missing += sorted({src for _, src in names} - self._sources.keys())
        if missing:
            raise UserError(
                f"{len(missing)} documents of the manifest are not in the data, {missing[0]} first",
                "add them, or give the manifest of this data",
                where,
            )

    def find(self, names: Names) -> DocumentPair:
        """Return the files of a pair, which `check` has found."""
        susp, src = map(drop_folder, names)
        return DocumentPair(self._suspicious[susp], self._sources[src], 0)

    def read(self, names: Names) -> tuple[str, str]:
        """Return the suspicious and the source text of a pair.

        Raises:
            UserError: a document cannot be read.
        """
        pair = self.find(names)
        return read_text(pair.suspicious), read_text(pair.source)
