"""Reading passages from XML as the official evaluator does, and refusing what is hostile."""

from pathlib import Path

import pytest

from pan_scdg.errors import UserError
from pan_scdg.evaluation.plagdet import compute_plagdet
from pan_scdg.pan.truth import read_spans
from pan_scdg.records import Span

SHARED = Path(__file__).parents[2].parent / "shared"
FEATURE = (
    '<feature name="{name}" this_offset="5" this_length="10" source_reference="{source}"'
    ' source_offset="3" source_length="20"/>'
)
SPAN = Span("s1", 5, 10, "r1", 3, 20)


def write(folder, *features, name="s1-r1.xml", reference='reference="s1.txt"'):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"<document {reference}>\n" + "\n".join(features) + "\n</document>\n", encoding="utf-8")
    return path


def plagiarism(source="r1.txt", name="plagiarism"):
    return FEATURE.format(name=name, source=source)


@pytest.mark.parametrize("name", ["s1-r1.xml", "any.xml", "folder/any.xml"])
@pytest.mark.parametrize("reference", ["s1", "s1.txt"])
@pytest.mark.parametrize("source", ["r1", "r1.txt"])
def test_pairing_goes_by_reference(tmp_path, name, reference, source):
    write(tmp_path, plagiarism(source), name=name, reference=f'reference="{reference}"')
    assert read_spans(tmp_path, "plagiarism") == [SPAN]


def test_every_txt_is_deleted_wherever_it_stands(tmp_path):
    write(tmp_path, plagiarism("a.txt.b.txt"), reference='reference="x.txt.old.txt"')
    assert [s[0::3][:2] for s in read_spans(tmp_path, "plagiarism")] == [("x.old", "a.b")]


@pytest.mark.parametrize("name", ["a/b/deep.xml", "s1.txt", "upper.XML", ".hidden.xml", ".hidden/x.xml"])
def test_files_that_are_not_read(tmp_path, name):
    write(tmp_path, plagiarism(), name=name)
    assert read_spans(tmp_path, "plagiarism") == []


def test_tags_match_by_suffix(tmp_path):
    write(tmp_path, plagiarism(name="detected-plagiarism"), plagiarism("r2.txt"), plagiarism("r3", name="altered"))
    assert [s.source for s in read_spans(tmp_path, "plagiarism")] == ["r1", "r2"]
    assert [s.source for s in read_spans(tmp_path, "detected-plagiarism")] == ["r1"]


def test_root_without_reference_and_feature_without_offset_are_left_out(tmp_path):
    write(tmp_path, plagiarism(), name="a.xml", reference="")
    write(tmp_path, '<feature name="plagiarism" this_offset="1"/>', '<feature this_offset="1" this_length="2"/>')
    assert read_spans(tmp_path, "plagiarism") == []


def test_missing_source_attributes_leave_the_source_out(tmp_path):
    write(
        tmp_path, '<feature name="plagiarism" this_offset="1" this_length="2" source_reference="r" source_offset="1"/>'
    )
    assert read_spans(tmp_path, "plagiarism") == [Span("s1", 1, 2, None, 0, 0)]


def test_detection_over_an_altered_span_is_a_false_positive(tmp_path):
    write(tmp_path / "truth", plagiarism(name="altered"), plagiarism("r2.txt"))
    write(tmp_path / "found", plagiarism(name="detected-plagiarism"), plagiarism("r2", name="detected-plagiarism"))
    result = compute_plagdet(read_spans(tmp_path / "truth", "plagiarism"), read_spans(tmp_path / "found", "plagiarism"))
    assert (result.macro_recall, result.macro_precision) == (1.0, 0.5)


@pytest.mark.parametrize(
    ("feature", "what"),
    [
        ('<feature name="plagiarism" this_offset="1.5" this_length="2"/>', "this_offset='1.5' is not a whole number"),
        ('<feature name="plagiarism" this_offset="1" this_length=""/>', "this_length='' is not a whole number"),
        ('<feature name="plagiarism" this_offset="-1" this_length="2"/>', "this_offset='-1' is not a whole number"),
        ('<feature name="plagiarism" this_offset="1" this_length="0"/>', "lengths of a feature are 0"),
        (
            f'<feature name="plagiarism" this_offset="{10**15 + 1}" this_length="2"/>',
            "is not a whole number from 0 to 1000000000000000",
        ),
        (f'<feature name="plagiarism" this_offset="{"9" * 5000}" this_length="2"/>', "9999...' is not a whole number"),
    ],
)
def test_bad_numbers_name_file_and_line(tmp_path, feature, what):
    path = write(tmp_path, plagiarism(), feature)
    with pytest.raises(UserError) as e:
        read_spans(tmp_path, "plagiarism")
    assert str(e.value).startswith(f"{path}:3: ")
    assert what in str(e.value)
    assert len(str(e.value)) < 400


def test_bad_numbers_of_other_features_do_not_matter(tmp_path):
    write(tmp_path, '<feature name="about" this_offset="x" this_length="y"/>', plagiarism())
    assert read_spans(tmp_path, "plagiarism") == [SPAN]


@pytest.mark.skipif(not (SHARED / "data/pan25-sample/truth").is_dir(), reason="the PAN 2025 sample is not here")
def test_sample_truth_against_itself():
    spans = read_spans(SHARED / "data/pan25-sample/truth", "plagiarism")
    assert len(spans) == 182
    assert set(compute_plagdet(spans, spans)) == {1.0}
