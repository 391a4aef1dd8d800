from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import find_pairs_file, name_detection, read_pairs, read_text

Write = Callable[..., Path]
TEXTS = {f"susp/s{i}.txt": f"sé {i}\r\nx" for i in (1, 2, 3)} | {f"src/r{i}.txt": f"\ufeffr {i}" for i in (1, 2, 3)}
PAIRS = "s1.txt r1.txt\ns2.txt r2.txt\ns3.txt r3.txt\n"


def flat(prefix: str = "") -> dict[str, str]:
    return {prefix + name.split("/")[1]: text for name, text in TEXTS.items()}


READABLE = {
    "susp and src": {"pairs": PAIRS, **TEXTS},
    "one folder": {"pairs": PAIRS, **flat("texts/")},
    "flat": {"pairs": PAIRS, **flat()},
    "prefixed pairs": {"01-pairs": PAIRS, **TEXTS},
    "ids without .txt": {"pairs": PAIRS.replace(".txt", ""), **TEXTS},
    "files without .txt": {"pairs": PAIRS.replace(".txt", ""), **{n[:-4]: t for n, t in TEXTS.items()}},
    "ids with folder": {"pairs": PAIRS.replace("s", "susp/s").replace("r", "src/r"), **TEXTS},
    "tabs and CRLF": {"pairs": PAIRS.replace(" ", "\t").replace("\n", "\r\n"), **TEXTS},
    "no newline at the end": {"pairs": PAIRS.removesuffix("\n"), **TEXTS},
    "dots in names": {"pairs": "1404.6257 r1\ns2 r2\ns3 r3\n", "susp/1404.6257.txt": "dots", **TEXTS},
    "one document in many pairs": {"pairs": "s1 r1\ns1 r2\ns2 r1\ns1 s1\n", **TEXTS},
    "truth beside": {"pairs": PAIRS, "truth/s1-r1.xml": "<document/>", **TEXTS},
}


@pytest.mark.parametrize("layout", READABLE.values(), ids=READABLE.keys())
def test_agrees_with_the_official_reader(write: Write, layout: dict[str, str]) -> None:
    io_utils = pytest.importorskip("tira.io_utils")
    directory = write(layout)
    official = [
        (e["suspicious_document_id"], e["suspicious_document_text"], e["source_document_id"], e["source_document_text"])
        for e in io_utils.dataset_as_iterator(directory, "text-alignment-corpus")
    ]
    notices = Notices()
    ours = [
        (p.suspicious.doc_id, read_text(p.suspicious), p.source.doc_id, read_text(p.source))
        for p in read_pairs(directory, notices).pairs
    ]
    assert ours == official
    assert notices.list_warnings() == []


def test_agrees_with_the_official_reader_on_the_sample(shared: Path) -> None:
    io_utils = pytest.importorskip("tira.io_utils")
    directory = shared / "pan25-sample" / "input"
    official = list(io_utils.dataset_as_iterator(directory, "text-alignment-corpus"))
    pairs = read_pairs(directory, Notices(strict=True)).pairs
    assert len(pairs) == len(official) == 15
    for pair, entry in zip(pairs, official):
        assert (pair.suspicious.doc_id, pair.source.doc_id) == (
            entry["suspicious_document_id"],
            entry["source_document_id"],
        )
        assert read_text(pair.suspicious) == entry["suspicious_document_text"]
        assert read_text(pair.source) == entry["source_document_text"]


@pytest.mark.parametrize("folder", ["03_train", "03_test", "02_no_obfuscation"])
def test_nested_download_layout(write: Write, folder: str) -> None:
    directory = write({f"{folder}/pairs": PAIRS, **TEXTS})
    corpus = read_pairs(directory, Notices(strict=True))
    assert corpus.pairs_file == directory / folder / "pairs"
    assert [p.source.path for p in corpus.pairs] == [directory / "src" / f"r{i}.txt" for i in (1, 2, 3)]


def test_pairs_at_the_root_win_over_nested_ones(write: Write) -> None:
    directory = write({"pairs": PAIRS, "01_no_plagiarism/pairs": "s1 r1", "02_no_obfuscation/pairs": "s2 r2", **TEXTS})
    assert find_pairs_file(directory) == directory / "pairs"


def test_ambiguous_pairs_files_are_named(write: Write) -> None:
    directory = write({"a/pairs": PAIRS, "b/pairs": PAIRS, **TEXTS})
    with pytest.raises(
        UserError, match=f"several inputs: a, b. Move the others out, or give one: --input {directory}/b"
    ):
        find_pairs_file(directory)
    write({"pairs": PAIRS, "01-pairs": PAIRS})
    with pytest.raises(UserError, match="several pairs files: 01-pairs, pairs"):
        find_pairs_file(directory)


def test_no_pairs_file(write: Write) -> None:
    directory = write({"pairs.txt": PAIRS, "deep/pairs": PAIRS})
    assert find_pairs_file(directory) is None
    with pytest.raises(UserError, match="no file whose name ends in 'pairs'"):
        read_pairs(directory, Notices())


def test_a_folder_named_pairs_and_hidden_files_are_no_pairs_file(write: Write) -> None:
    directory = write({"pairs": PAIRS, "._pairs": "x", "old-pairs/readme": "x", **TEXTS})
    assert find_pairs_file(directory) == directory / "pairs"


def test_fields_of_a_pair(write: Write) -> None:
    directory = write({"pairs": "susp/s1 src/r1.txt\ns2 r2\ns3 r3", **TEXTS})
    pair = read_pairs(directory, Notices()).pairs[0]
    assert (pair.suspicious.doc_id, pair.suspicious.reference) == ("susp/s1", "s1.txt")
    assert (pair.source.doc_id, pair.source.reference) == ("src/r1", "r1.txt")
    assert pair.line == 1
    assert name_detection(pair) == "s1-r1.xml"
    assert read_text(pair.suspicious) == "sé 1\nx"


def test_odd_pairs_files_are_counted_and_read(write: Write) -> None:
    notices = Notices()
    directory = write({"pairs": "\ufeffs1 r1\n\ns2 r2\ns1.txt r1.txt\n  \n", **TEXTS})
    corpus = read_pairs(directory, notices)
    assert [p.line for p in corpus.pairs] == [1, 3]
    told = "\n".join(notices.list_warnings())
    assert f"blank line in the pairs file, skipped: 2 times, first at {directory / 'pairs'}:2" in told
    assert f"repeated pair, used once: 1 time, first at {directory / 'pairs'}:4" in told
    assert "fewer than 3 pairs: TIRA's check will refuse this output: 1 time" in told
    assert "byte-order mark" in told
    with pytest.raises(UserError, match="--strict"):
        read_pairs(directory, Notices(strict=True))


def test_one_id_for_two_files(write: Write) -> None:
    directory = write({"pairs": "a/d r1\na/d.txt r2\n", "a/d.txt": "1", "a/d.txt.txt": "2", **TEXTS})
    with pytest.raises(UserErrors, match=r"several files for the id 'a/d\.txt'"):
        read_pairs(directory, Notices())
    directory = write({"pairs": "e r1\ne.txt r2\n", "e": "1", "b/e.txt.txt": "2", **TEXTS})
    with pytest.raises(UserErrors, match="the id 'e' refers to two files"):
        read_pairs(directory, Notices())


def test_two_ways_to_one_file_are_no_ambiguity(write: Write) -> None:
    directory = write({"pairs": PAIRS, **TEXTS})
    (directory / "all").mkdir()
    (directory / "all" / "s1.txt").symlink_to(directory / "susp" / "s1.txt")
    assert read_text(read_pairs(directory, Notices()).pairs[0].suspicious) == "sé 1\nx"


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet=st.sampled_from("s1r2./\\ \t\n\r\0\x1c\u2028\ufeffé*[]~"), max_size=60))
def test_any_pairs_file_is_read_or_refused_in_one_way(write: Write, text: str) -> None:
    directory = write({"pairs": text, **TEXTS})
    try:
        told, pairs = "", read_pairs(directory, Notices()).pairs
    except UserError as e:
        told, pairs = str(e), ()
    assert all(line.isprintable() for line in told.split("\n"))
    assert all(f.path.resolve().is_relative_to(directory.resolve()) for p in pairs for f in p[:2])
    assert bool(told) != bool(pairs)
