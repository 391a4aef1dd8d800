from collections.abc import Callable
from pathlib import Path

import pytest

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.pan.truth import find_truth, read_truth
from pan_scdg.records import Passage

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
SPAN = 'this_offset="{}" this_length="{}" source_offset="{}" source_length="{}" source_reference="r1.txt"'


def test_passages_of_each_pair(write: Write) -> None:
    directory = write({"truth/s1-r1.xml": ONE, "truth/s1-r2.xml": EMPTY, **TEXTS})
    assert read_truth(directory / "truth", read_pairs(directory, Notices()).pairs) == {
        ("s1", "r1"): (Passage(0, 7, 3, 9, "hard"), Passage(7, 1, 0, 2, "")),
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
    assert find_truth(sample / "input") is None


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
    with pytest.raises(UserError, match="several folders with truth: 03_train_truth, 03_test_truth"):
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
    ("xml", "line", "what"),
    [
        ('<document reference="s2.txt"/>', 1, "the root's reference is 's2.txt', not 's1.txt'"),
        ("<document/>", 1, "the root's reference is None"),
        ("<document>\n<feature>\n</document>", 3, "not well-formed XML"),
        ('<!DOCTYPE x><document reference="s1.txt"/>', 1, "DOCTYPE"),
        *(
            (f'<document reference="s1.txt">\n<feature name="plagiarism" {SPAN.format(*span)}/></document>', 2, what)
            for span, what in (
                (("-1", 1, 1, 1), "this_offset='-1' is not a whole number from 0"),
                (("1.5", 1, 1, 1), "this_offset='1.5'"),
                ((0, 0, 0, 1), "this_length='0' is not a whole number from 1"),
                ((0, 1, "", 1), "source_offset=''"),
                ((0, 1, 0, "9" * 5000), "source_length="),
            )
        ),
    ],
)
def test_faulty_truth_names_file_and_line(write: Write, xml: str, line: int, what: str) -> None:
    directory = write({"truth/s1-r1.xml": xml, "truth/s1-r2.xml": EMPTY, **TEXTS})
    with pytest.raises(UserErrors) as error:
        read_truth(directory / "truth", read_pairs(directory, Notices()).pairs)
    assert str(error.value).startswith(f"{directory / 'truth' / 's1-r1.xml'}:{line}: ")
    assert what in str(error.value)
