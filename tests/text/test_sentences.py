"""Sentences and their spans."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pan_scdg.text.sentences import find_sentence_spans, split_sentences

fuzzy = settings(max_examples=50, deadline=None)
pieces = st.sampled_from(
    ["The cat", " sat", ".", "! ", "?\n", "\n\n", "\n", "# Head\n", "- item", "e.g.", " Fig. 3", "\xa0", " ", "\t",
     "---", '."', " 3.14", "J. R. ", "Ünïc", "。", "\r\n", "\x85", "\u2028", "1. ", "*", "($x$).", "Abstract\n"]
)  # fmt: skip
free_text = st.one_of(st.text(max_size=200), st.lists(pieces, max_size=40).map("".join))

SPLIT = [
    (
        "They left.\xa0He saw Fig.\xa03 of Dr.\xa0Smith.\xa0 Nobody",
        ["They left.", "He saw Fig.\xa03 of Dr.\xa0Smith.", "Nobody"],
    ),
    ("They left.12 We saw.1,2 I was “there.”3 Who knew?¹² All.[^note] Or.(4) End", 7),
    ("It grew by 3.12 Percent with v2.5 Beta as section 4.12 Results says", 1),
    ("One sentence. Another one! A third? Yes.", ["One sentence.", "Another one!", "A third?", "Yes."]),
    ("She asked Dr. Smith. He left.", ["She asked Dr. Smith.", "He left."]),
    ("Small models, e.g. ours, work. So do large ones, i.e. Theirs.", 2),
    ("As Fig. 3 and Eq. (2) show, it grows by 3.5 percent. It stops.", 2),
    ("Lee et al. (2020) and Roe et al. Measured it. We did not.", 2),
    ("The work of J. R. R. Tolkien and G.W. Leibniz is old. It lasts.", 2),
    ("Use nails, screws, etc. for the frame. Paint it, glue it, etc. Then wait.", 3),
    ("It was no. 5 on the list. The answer was no. 'Why?' he asked.", 3),
    ('He said "Stop." Then he left. "Really?" she asked.', 3),
    ("It ended in 2004. The next began [12]. More.[3] End.", 4),
    (
        "See Alg. 2 and Sec. 4, it has max. 5 steps (ibid.) of v. 2. It took 12 ms. We ran 5 sec. So did Ms. Roe.",
        4,
    ),
    ("Its error (syst.) is small, incl. noise. The sum is $x = 1.$ Then we stop.", 3),
    ("Extracts were stored. mRNA was kept approx. five days.", 2),
    ("Wait... what? He paused... Then he spoke.", ["Wait... what?", "He paused...", "Then he spoke."]),
    ("## Abstract\n\nWe try.\n## Method\nWe do it", ["## Abstract", "We try.", "## Method", "We do it"]),
    ("First paragraph without a stop\n\nsecond one", ["First paragraph without a stop", "second one"]),
    ("It has parts:\n- one part\n- another part", ["It has parts:", "- one part", "- another part"]),
    ("1. First point. It matters.\n2. Second point.", ["1. First point.", "It matters.", "2. Second point."]),
    ("A hard-wrapped line\ngoes on here. And\nends.", ["A hard-wrapped line\ngoes on here.", "And\nends."]),
    ("Introduction\nWe begin.", ["Introduction", "We begin."]),
    ("Heavy Ions\n" + "We collide gold " * 8 + "now.", 2),
    ("It ends.\n\n---\n\nIt begins.\n\n***", ["It ends.", "---\n\nIt begins.\n\n***"]),
    ("at 12\xa0GeV. Then", ["at 12\xa0GeV.", "Then"]),
    ("„Es regnet.“ Dann »Nein.« Also ‚Ja!‘ So.", ["„Es regnet.“", "Dann »Nein.«", "Also ‚Ja!‘", "So."]),
    ("Also: „Es regnet.“12 »Nein.«[3] ›Gut.‹ Ja.", ["Also: „Es regnet.“12", "»Nein.«[3]", "›Gut.‹", "Ja."]),
    ("The value of x. Then y.", ["The value of x.", "Then y."]),
    ("...", ["..."]),
    ("", []),
    (" \n\t ", []),
]


@pytest.mark.parametrize(("text", "expected"), SPLIT)
def test_sentences(text: str, expected: list[str] | int) -> None:
    found = split_sentences(text)
    assert (len(found) if isinstance(expected, int) else found) == expected


@fuzzy
@given(free_text)
@example("")
@example("  \n ")
@example("One. \n\n ... ")
def test_spans_part_the_text_in_front_of_white_space(text: str) -> None:
    spans = find_sentence_spans(text)
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(start < end for start, end in spans)
    assert all(text[start].isspace() and not text[start - 1].isspace() for start, _ in spans[1:])


@fuzzy
@given(free_text)
def test_sentences_lose_nothing_but_white_space_and_hold_words(text: str) -> None:
    found = split_sentences(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert len(found) <= 1 or all(any(map(str.isalnum, sentence)) for sentence in found)


@pytest.mark.parametrize(
    "unit", [".", ". ", "a. ", "\n\n", "- ", "-\n\n", "# ", "#\n", " ", "[1]", "e.g.", "Abstract\n"]
)
def test_long_hostile_text_is_parted_whole(unit: str) -> None:
    text = unit * 20_000
    assert sum(end - start for start, end in find_sentence_spans(text)) == len(text)
