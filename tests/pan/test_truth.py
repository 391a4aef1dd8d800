"""Truth of pairs, and passages read from XML as the official evaluator does; what is hostile or faulty is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.evaluation.plagdet import compute_plagdet
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.pan.truth import find_truth, read_features, read_truth, warn_of_line_ends
from tests.passages import make_feature, make_passage

Write = Callable[..., Path]
TEXTS = {"susp/s1.txt": "s", "src/r1.txt": "r", "src/r2.txt": "r", "pairs": "s1.txt r1.txt\ns1.txt r2.txt\n"}
EMPTY = '<document reference="s1.txt"/>'
ONE = """<?xml version="1.0" encoding="utf-8"?>
<document reference="s1.txt">
  <!-- the pair's passages -->
  <feature name="about" authors="A" title="T"/>
  <feature name="altered" this_offset="5" this_length="1000"/>
  <feature name="plagiarism" obfuscation="hard" this_offset="0" this_length="7" source_reference="r1.txt"
           source_offset="3" source_length="9"/>
  <feature name="plagiarism" this_offset="7" this_length="1" source_reference="r1" source_offset="0" source_length="2"/>
  <feature name="plagiarism" this_offset="1" this_length="1" source_reference="r9.txt" source_offset="0"
           source_length="2"/>
</document>
"""


def test_passages_of_each_pair(write: Write) -> None:
    directory = write({"truth/s1-r1.xml": ONE, "truth/s1-r2.xml": EMPTY, **TEXTS})
    assert read_truth(directory / "truth", read_pairs(directory, Notices()).pairs) == {
        ("s1", "r1"): (make_passage(0, 7, 3, 9, "hard"), make_passage(7, 1, 0, 2, "")),
        ("s1", "r2"): (),
    }


def test_truth_of_the_sample(shared: Path) -> None:
    sample = shared / "pan25-sample"
    pairs = read_pairs(sample / "input", Notices()).pairs
    truth = read_truth(sample / "truth", pairs)
    numbers = {key[0][-5:]: passages for key, passages in truth.items() if passages}
    # the table of the sample's README: passages by simple, medium and hard
    assert {
        n: [sum(p.obfuscation == o for p in ps) for o in ("simple", "medium", "hard")] for n, ps in numbers.items()
    } == {
        "00004": [78, 42, 13],
        "00005": [12, 11, 3],
        "00013": [16, 6, 1],
    }
    assert all(key[0][-5:] == key[1][-5:] for key, passages in truth.items() if passages)
    assert find_truth(sample / "input") == (sample / "truth").resolve()


def test_truth_may_lie_one_folder_below(write: Write) -> None:
    files = {"01_no_plagiarism/s1-r2.xml": EMPTY, "02_no_obfuscation/s1-r1.xml": ONE, **TEXTS}
    directory = write(files)
    assert find_truth(directory) == directory
    assert len(read_truth(directory, read_pairs(directory, Notices()).pairs)["s1", "r1"]) == 2


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"truth/x.xml": EMPTY, **TEXTS}, "truth"),
        ({"03_train_truth/x.xml": EMPTY, **TEXTS}, "03_train_truth"),
        ({"s1-r1.xml": EMPTY, **TEXTS}, "."),
        (TEXTS, None),
    ],
)
def test_where_truth_is_found(write: Write, files: dict[str, str], found: str | None) -> None:
    directory = write(files)
    assert find_truth(directory) == (None if found is None else directory / found)


def test_nested_pairs_have_the_truth_of_their_own_name_or_beside_them(write: Write) -> None:
    nested = {name: text for name, text in TEXTS.items() if name != "pairs"} | {"03_test/pairs": TEXTS["pairs"]}
    directory = write({"03_train_truth/x.xml": EMPTY, "03_test_truth/x.xml": EMPTY, **nested})
    assert find_truth(directory) == directory / "03_test_truth"
    (directory / "03_test").rename(directory / "04_other")
    assert find_truth(directory) is None


def test_several_folders_with_truth_are_named(write: Write) -> None:
    directory = write({"truth/x.xml": EMPTY, "03_test_truth/x.xml": EMPTY, **TEXTS})
    with pytest.raises(UserError, match="several folders with truth: 03_test_truth, truth. Choose one with --truth"):
        find_truth(directory)


def test_truth_beside_nested_pairs(write: Write) -> None:
    nested = {name: text for name, text in TEXTS.items() if name != "pairs"}
    directory = write({"02_no_obfuscation/pairs": TEXTS["pairs"], "02_no_obfuscation/s1-r1.xml": ONE, **nested})
    assert find_truth(directory) == directory / "02_no_obfuscation"


def test_every_pair_without_truth_is_named(write: Write) -> None:
    directory = write({"truth/other.xml": EMPTY, **TEXTS})
    with pytest.raises(UserErrors) as error:
        read_truth(directory / "truth", read_pairs(directory, Notices()).pairs)
    assert [e.what for e in error.value.errors] == [f"the truth file 's1-r{i}.xml' does not exist" for i in (1, 2)]


def test_a_truth_file_in_two_folders_must_be_the_same(write: Write) -> None:
    directory = write({"a/s1-r1.xml": ONE, "b/s1-r1.xml": ONE, "s1-r2.xml": EMPTY, **TEXTS})
    pairs = read_pairs(directory, Notices()).pairs
    assert len(read_truth(directory, pairs)["s1", "r1"]) == 2
    write({"b/s1-r1.xml": EMPTY})
    with pytest.raises(UserErrors, match=f"differs in {directory}/a and {directory}/b. Choose one with --truth"):
        read_truth(directory, pairs)


@pytest.mark.parametrize(
    ("xml", "what"),
    [
        ('<document reference="s2.txt"/>', "the root's reference is 's2.txt', not 's1.txt'"),
        ("<document/>", "the root's reference is None"),
    ],
)
def test_truth_of_another_document_is_refused(write: Write, xml: str, what: str) -> None:
    directory = write({"truth/s1-r1.xml": xml, "truth/s1-r2.xml": EMPTY, **TEXTS})
    with pytest.raises(UserErrors) as error:
        read_truth(directory / "truth", read_pairs(directory, Notices()).pairs)
    assert str(error.value).startswith(f"{directory / 'truth' / 's1-r1.xml'}:1: {what}")


@pytest.mark.parametrize(("line_end", "counted", "warns"), [("\r\n", 2, True), ("\r\n", 1, False), ("\n", 1, False)])
def test_offsets_that_count_two_characters_at_a_line_end(
    write: Write, line_end: str, counted: int, warns: bool
) -> None:
    lines = [f"Line {i} of the harbour book, with boats and nets." for i in range(20)]
    text = line_end.join(lines)
    sizes = [len(line) + counted for line in lines]
    features = "".join(
        f'<feature name="plagiarism" this_offset="{at}" this_length="{size}" source_reference="r1.txt"'
        f' source_offset="{at}" source_length="{size}"/>'
        for at, size in ((sum(sizes[:i]), len(lines[i])) for i in (3, 7, 12))
    )
    directory = write(
        {"pairs": "s1 r1\n", "susp/s1.txt": text, "src/r1.txt": text}
        | {"truth/s1-r1.xml": f'<document reference="s1.txt">{features}</document>'}
    )
    pairs = read_pairs(directory, Notices()).pairs
    warnings = warn_of_line_ends(read_truth(directory / "truth", pairs), pairs)
    assert bool(warnings) == warns
    if warns:
        what = r"the truth counts \r\n as two characters: 12 of 12 ends of passages are at words, and "
        assert what in warnings[0]


SHARED = Path(__file__).parents[2].parent / "shared"
FEATURE = (
    '<feature name="{name}" this_offset="5" this_length="10" source_reference="{source}"'
    ' source_offset="3" source_length="20"/>'
)
FOUND = make_feature("s1", 5, 10, "r1", 3, 20)


def write_xml(folder, *features, name="s1-r1.xml", reference='reference="s1.txt"'):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"<document {reference}>\n" + "\n".join(features) + "\n</document>\n", encoding="utf-8")
    return path


def plagiarism(source="r1.txt", name="plagiarism"):
    return FEATURE.format(name=name, source=source)


@pytest.mark.parametrize("name", ["s1-r1.xml", "any.xml"])
@pytest.mark.parametrize("reference", ["s1", "s1.txt"])
@pytest.mark.parametrize("source", ["r1", "r1.txt"])
def test_pairing_goes_by_reference(tmp_path, name, reference, source):
    write_xml(tmp_path, plagiarism(source), name=name, reference=f'reference="{reference}"')
    assert read_features(tmp_path, "plagiarism") == [FOUND]


def test_every_txt_is_deleted_wherever_it_stands(tmp_path):
    write_xml(tmp_path, plagiarism("a.txt.b.txt"), reference='reference="x.txt.old.txt"')
    assert [(s.suspicious, s.source) for s in read_features(tmp_path, "plagiarism")] == [("x.old", "a.b")]


@pytest.mark.parametrize("name", ["folder/any.xml", "s1.txt", "upper.XML", ".hidden.xml", ".hidden/x.xml"])
def test_files_that_are_not_read(tmp_path, name):
    write_xml(tmp_path, plagiarism(), name=name)
    assert read_features(tmp_path, "plagiarism") == []


def test_tags_match_by_suffix(tmp_path):
    write_xml(tmp_path, plagiarism(name="detected-plagiarism"), plagiarism("r2.txt"), plagiarism("r3", name="altered"))
    assert [s.source for s in read_features(tmp_path, "plagiarism")] == ["r1", "r2"]
    assert [s.source for s in read_features(tmp_path, "detected-plagiarism")] == ["r1"]


def test_root_without_reference_and_feature_without_offset_are_left_out(tmp_path):
    write_xml(tmp_path, plagiarism(), name="a.xml", reference="")
    write_xml(tmp_path, '<feature name="plagiarism" this_offset="1"/>', '<feature this_offset="1" this_length="2"/>')
    assert read_features(tmp_path, "plagiarism") == []


def test_missing_source_attributes_leave_the_source_out(tmp_path):
    write_xml(
        tmp_path, '<feature name="plagiarism" this_offset="1" this_length="2" source_reference="r" source_offset="1"/>'
    )
    assert read_features(tmp_path, "plagiarism") == [make_feature("s1", 1, 2, None, 0, 0)]


def test_detection_over_an_altered_span_is_a_false_positive(tmp_path):
    write_xml(tmp_path / "truth", plagiarism(name="altered"), plagiarism("r2.txt"))
    write_xml(tmp_path / "found", plagiarism(name="detected-plagiarism"), plagiarism("r2", name="detected-plagiarism"))
    result = compute_plagdet(
        read_features(tmp_path / "truth", "plagiarism"), read_features(tmp_path / "found", "plagiarism")
    )
    assert (result.macro_recall, result.macro_precision) == (1.0, 0.5)


def test_bad_numbers_of_other_features_do_not_matter(tmp_path):
    write_xml(tmp_path, '<feature name="about" this_offset="x" this_length="y"/>', plagiarism())
    assert read_features(tmp_path, "plagiarism") == [FOUND]


@pytest.mark.skipif(not (SHARED / "data/pan25-sample/truth").is_dir(), reason="the PAN 2025 sample is not here")
def test_sample_truth_against_itself():
    spans = read_features(SHARED / "data/pan25-sample/truth", "plagiarism")
    assert len(spans) == 182
    assert set(compute_plagdet(spans, spans)) == {1.0}
