"""The pair manifest: labels, counts and exclusions from a corpus, and every fault of a manifest file in one line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.profile import load_profile
from studies.data.corpora import PairDocuments, TruePair, read_corpora
from studies.data.pair_manifest import (
    MOST_TOKENS,
    ExcludedPair,
    PairRecord,
    count_classes,
    digest_manifest,
    make_manifest,
    read_manifest,
)
from studies.data.records import format_records
from studies.data.token_counter import count_tokens
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import plan_pairs
from tests.studies.small_corpora import feature, record, write_corpus

FIELDS = [
    "pair_id",
    "susp_file",
    "src_file",
    "xml_file",
    "xml_exists",
    "doc_label",
    "num_annotations_for_pair",
    "annotations",
    "susp_tokens",
    "src_tokens",
    "total_tokens",
]
PAIRS = [("s1", "r1"), ("s1", "r2"), ("s2", "r2"), ("s3", "r3"), ("s4", "r4")]
TRUTH = {
    "s1-r1": feature("r1.txt") + feature("r1.txt", (50, 9, 60, 9), obfuscation="hard"),
    "s1-r2": feature("r1.txt"),
    "s2-r2": feature("r2.txt", kind="altered"),
    "s4-r4": feature("r4"),
}


def count_words(corpus: list[TruePair]) -> dict[Path, int]:
    files = {file.path: file for true in corpus for file in (true.pair.suspicious, true.pair.source)}
    return {path: len(read_text(file).split()) for path, file in files.items()}


def make(folder: Path, most_tokens: int = 128_000) -> tuple[tuple[PairRecord, ...], tuple[ExcludedPair, ...]]:
    corpus = read_corpora(folder, Notices())
    return make_manifest(corpus, count_words(corpus), most_tokens)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "pan25", PAIRS, {"s4": "word " * 99, "r1": "one two"}, TRUTH)


def test_a_plagiarism_feature_of_this_source_makes_a_pair_positive(corpus: Path) -> None:
    notices = Notices()
    found = read_corpora(corpus, notices)
    records, excluded = make_manifest(found, count_words(found))
    assert excluded == ()
    labels = {r.pair_id: (r.doc_label, r.num_annotations_for_pair, r.xml_exists) for r in records}
    assert labels == {
        "s1-r1": (1, 2, True),
        "s1-r2": (0, 0, True),  # a feature of another source
        "s2-r2": (0, 0, True),  # altered is not reused
        "s3-r3": (0, 0, False),
        "s4-r4": (1, 1, True),
    }
    assert count_classes(records) == {"positive": 2, "negative": 3, "total": 5}
    assert "pair without a truth file, labelled negative as in the paper: 1 time" in notices.list_warnings()[0]
    assert records[0].annotations[1] == {
        "this_offset": 50,
        "this_length": 9,
        "source_offset": 60,
        "source_length": 9,
        "obfuscation": "hard",
    }


def test_longer_pairs_are_logged(corpus: Path) -> None:
    records, excluded = make(corpus, most_tokens=101)
    first = records[0]
    assert (first.susp_tokens, first.src_tokens, first.total_tokens) == (3, 2, 5)
    assert [(e.pair_id, e.total_tokens) for e in excluded] == [("s4-r4", 102)]
    assert len(make(corpus, most_tokens=102)[0]) == 5


@pytest.mark.parametrize(
    ("name", "architecture", "added"),
    [
        ("pan25-qwen3-8b", "qwen3-no-bos", 2),
        ("pan25-llama-3.1-8b", "llama", 3),
        ("pan25-ministral-3-8b", "mistral3", 3),
    ],
)
def test_the_longest_pair_of_the_manifest_is_planned(
    name: str, architecture: str, added: int, tiny_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    """With the limit of the profile, which counts both newlines between them and a BOS too."""
    profile, folder = load_profile(name), tiny_folder(architecture)
    settings = profile.need_model().model_copy(update={"tokenizer": "fast", "probes": {}})
    half = "q\n" * (MOST_TOKENS // 4)
    corpus = read_corpora(write_corpus(tmp_path / "pan25", [("s", "r")], {"s": half, "r": half}), Notices())
    files = [file for true in corpus for file in (true.pair.suspicious, true.pair.source)]
    (record,), excluded = make_manifest(corpus, count_tokens(files, settings, folder)[0])
    assert (record.total_tokens, excluded) == (MOST_TOKENS, ())
    model = ScoringModel(settings, "cpu", folder=folder, counts_only=True)
    (planned,), failed = plan_pairs([corpus[0].pair], model, profile.need_pairs(), Notices())
    assert (planned.mode, planned.tokens, failed) == ("whole", MOST_TOKENS + added, [])


def test_what_is_written_is_read_again_with_the_fields_of_the_paper_and_no_text(corpus: Path, tmp_path: Path) -> None:
    records, _ = make(corpus)
    text = format_records(records)
    (tmp_path / "m.jsonl").write_text(text)
    assert read_manifest(tmp_path / "m.jsonl") == records
    assert list(json.loads(text.splitlines()[0])) == FIELDS
    assert "text of" not in text
    assert "word word" not in text


def test_the_digest_is_of_the_records_and_not_of_how_a_file_spells_them(tmp_path: Path) -> None:
    records = (record("s", "r"),)
    fields = json.loads(format_records(records))
    (tmp_path / "m.jsonl").write_text(
        json.dumps({"note": "other", **dict(reversed(fields.items()))}, indent=None) + "\n\n"
    )
    assert digest_manifest(read_manifest(tmp_path / "m.jsonl")) == digest_manifest(records)


def line(**changes: Any) -> str:
    fields = {**json.loads(format_records([record("s", "r")])), **changes}
    return json.dumps({key: value for key, value in fields.items() if value != "ABSENT"})


@pytest.mark.parametrize(
    ("second", "what"),
    [
        ("{", "not JSON"),
        ("[]", "a JSON object"),
        (line(pair_id="ABSENT"), "pair_id: Field required"),
        (line(pair_id=5), "pair_id: Input should be a valid string"),
        (line(pair_id="a b", susp_file="x"), "white space in the id"),
        (line(doc_label=2), "doc_label"),
        (line(doc_label=True), "doc_label"),
        (line(doc_label=0), "doc_label is 0 with 1 annotations"),
        (line(num_annotations_for_pair=3), "num_annotations_for_pair is 3, and there are 1"),
        (line(total_tokens=-1), "total_tokens"),
        (line(total_tokens="30"), "total_tokens"),
        (line(annotations=[{"text": "x" * 513}]), "annotations.0.text"),
        (line(), "occurs twice, first in line 1"),
        (line(pair_id="other"), "occurs twice, first in line 1"),
        (line(pair_id="other", susp_file="folder/s.txt"), "occurs twice, first in line 1"),
        ("[" * 100_000, "nested deeper"),
        ('{"pair_id": "\\ud800"}', "Invalid JSON"),
    ],
)
def test_a_bad_manifest_is_one_clear_line(tmp_path: Path, second: str, what: str) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(f"{line()}\n{second}\n")
    with pytest.raises(UserError) as caught:
        read_manifest(path)
    assert (caught.value.where, caught.value.line) == (path, 2)
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_empty_manifest(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text("\n")
    with pytest.raises(UserError, match="contains no pair"):
        read_manifest(tmp_path / "m.jsonl")


def test_texts_are_found_again_and_missing_ones_are_one_line(corpus: Path) -> None:
    found = read_corpora(corpus, Notices())
    records, _ = make_manifest(found, count_words(found))
    documents = PairDocuments(found)
    documents.check([record.names for record in records], corpus)
    assert documents.read(records[0].names) == ("text of s1", "one two")
    assert documents.read(("some/folder/s2.txt", records[0].src_file)) == ("text of s2", "one two")
    gone = [("s9.txt", "r1.txt"), ("s8.txt", "../../etc/passwd.txt")]
    with pytest.raises(UserError, match=r"m.jsonl: 3 documents of the manifest are not in the data, s8.txt first"):
        documents.check(gone, Path("m.jsonl"))


def test_several_corpora_side_by_side_are_one(corpus: Path, tmp_path: Path) -> None:
    write_corpus(tmp_path / "both" / "b", [("x1", "y1")], truth={"x1-y1": ""})
    corpus.rename(tmp_path / "both" / "a")
    found = read_corpora(tmp_path / "both", Notices())
    assert [true.pair_id for true in found] == ["s1-r1", "s1-r2", "s2-r2", "s3-r3", "s4-r4", "x1-y1"]
    write_corpus(tmp_path / "both" / "c", [("x2", "y1")], truth={"x2-y1": ""})
    with pytest.raises(UserError, match=r"two source documents are named y1\.txt"):
        read_corpora(tmp_path / "both", Notices())


def test_a_folder_without_corpus_without_truth_or_with_truth_of_others(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(UserError, match="contains no text-alignment corpus"):
        read_corpora(tmp_path / "none", Notices())
    folder = write_corpus(tmp_path / "x", PAIRS, truth={"s7-r7": ""})
    with pytest.raises(UserError, match="no truth file of any pair"):
        read_corpora(folder, Notices())
    (folder / "truth" / "s7-r7.xml").unlink()
    (folder / "truth").rmdir()
    with pytest.raises(UserError, match="no truth was found in the input folder"):
        read_corpora(folder, Notices())
