"""What a score leaves out: quotations and lists of references, as far as they are bounded."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.text.parts import PartKind, classify_passage
from pan_scdg.text.references import find_reference_lists
from pan_scdg.text.units import prepare_text, read_layout, read_words

OWN = "A sentence of the author with nine words in it. " * 40
ENTRIES = """Arendsen, M. (1998). The silent ledgers: shipping and loss on the northern coast. Kiel: Harbour Press.
Boateng, K., and Ruiz, L. (2011). Counting what is absent. Journal of Historical Method, 14(2), 87-109.
[3] C. H. Cho, "Tide tables," Economic Letters, vol. 7, 2004.
World Health Board (2016): Reading against the archive. https://example.org/archive"""


def find(text: str, kind: PartKind) -> list[str]:
    """Return all parts of a kind."""
    _, parts = read_layout(text, read_words(text).words)
    spans = {part.kind: part.spans for part in parts}[kind]
    return [text[begin:end] for begin, end in spans.tolist()]


def classify(text: str, part: str) -> tuple[PartKind | None, bool]:
    """Return in what a part of a text lies, and whether it counts."""
    begin = text.index(part)
    _, parts = read_layout(text, read_words(text).words)
    return classify_passage(parts, begin, begin + len(part))


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('He said "there is nothing to see" and left.', ['"there is nothing to see"']),
        ("“One two three.” “Four.”", ["“One two three.”", "“Four.”"]),
        ("„Eins zwei“, sagte er, „drei”.", ["„Eins zwei“", "„drei”"]),
        ("»Eins zwei«, sagte er, ›drei‹ »fyra».", ["»Eins zwei«", "›drei‹", "»fyra»"]),
        ("« Un deux », et « trois ».", ["« Un deux »", "« trois »"]),
        ("‘It’s the best of times’, she didn’t say.", ["‘It’s the best of times’"]),
        ("Rock 'n' roll isn't the clerks' and 'one' is a year of '98.", []),
        ('A 5" pipe and "a pipe" and 6" more of "it"', ['"a pipe"', '"it"']),
        ("Before:\n> a quoted line\n > and another\nafter > all", ["> a quoted line\n > and another"]),
        ('She said "this has no end.\n\nHer own words, "really" all of them.', ['"really"']),
        ('"A quotation\nover two lines."', ['"A quotation\nover two lines."']),
        ("“An „inner“ one”, and ““ no end", ["„inner“"]),
        ('„Eins zwei", sagte er.', ['„Eins zwei"']),
        ('“one" or "three"', ['“one"', '"three"']),
        ('Then "two” or “four”', ['"two”', "“four”"]),
        ('She wrote "so it is"12 and "so"3. "No"2nd "no"1234', ['"so it is"', '"so"']),
        ('\ufeff"A mark before it"', ['"A mark before it"']),
        ("\ufeff> a line\n> another", ["\ufeff> a line\n> another"]),
        ("- So:\n- > a line", ["- > a line"]),
        ("He said 'it isn't the end of it all' and 'so' he left.", ["'it isn't the end of it all'"]),
        ('He said:"one"¹² and *"two"*, ＂three＂ ″four″ ‟five”', ['"one"', '"two"', "＂three＂", "″four″", "‟five”"]),
        ("It is ``one's own'' or `two' and `code` of hers'", ["``one's own''", "`two'"]),
        ("“One “two” three” and “four", ["“One “two” three”"]),
        ('So "one\n\n12\n\ntwo" and "three\n\nfour" end', ['"one\n\n12\n\ntwo"', '"three\n\nfour"']),
        ('So "one\n\nIt never ends, as she knew.\n\ntwo" end', []),
        ("“One two.\n\n“Three.” Four.", ["“One two.\n", "“Three.”"]),
        ("So:\n\n*One two.*\n\nThree:\n\n*four* five\n\n*Six.*", ["*One two.*"]),
        ("So\n\\begin{quote}\none\n\\end{quote} two", ["\\begin{quote}\none\n\\end{quote}"]),
        ("A long paragraph of my own.\n\n    One\n    two\n\n    Three\n\nfour five", ["    One\n    two\n"]),
        ("A long paragraph of my own.\n\n    x = 1\n    return x\n\nfour five", []),
        ("A long paragraph of my own.\n\n    •   One\n    •   two\n\nfour five", []),
        ("We sat 'cause it was so hot that day and watched the Ravens' game, 'til the dogs' dinner.", []),
        (
            "So:\n> a line of a paragraph that breaks off in the middle\nof it.\nSo\n\nOn",
            ["> a line of a paragraph that breaks off in the middle\nof it.\nSo"],
        ),
        (
            "> > > Home > Dogs and cats and all other animals\nA dog is",
            ["> > > Home > Dogs and cats and all other animals"],
        ),
        ("a [quote=Ann]b [quote]c[/quote] d", ["[quote]c[/quote]"]),
        ("    all of\n    the text\n\n    is set\n    like this", []),
        (
            '"One" (Ann,\np. 4), “two” [3] or "three" and (four) or "five" (a\n\nb)',
            ['"One"', " (Ann,\np. 4)", "“two”", " [3]", '"three"', '"five"'],
        ),
        (f'"One" ({"a" * 101})', ['"One"']),
    ],
)
def test_quotations_are_recognised(text: str, quoted: list[str]) -> None:
    assert find(text, "quotation") == quoted


@pytest.mark.parametrize(("quoted", "counts"), [("a dozen more boats", True), ("a dozen more boats had left", False)])
def test_a_sentence_a_third_of_which_is_quoted_does_not_count(quoted: str, counts: bool) -> None:
    sentence = f'The harbour master told the paper that "{quoted}" by noon.'
    prepared = prepare_text(f"{OWN}{sentence}")
    assert (prepared.text[slice(*prepared.spans[-1].tolist())], prepared.counted[-1]) == (sentence, counts)


def test_a_passage_is_a_quotation_if_most_of_it_is() -> None:
    text = f'{OWN}She wrote: "There is nothing to see here at all." That was all she ever wrote, as far as we know.'
    assert classify(text, 'wrote: "There is nothing to see here at all."') == ("quotation", False)
    assert classify(text, 'here at all." That was all she ever wrote') == (None, True)
    prepared = prepare_text(text)
    begin, end = prepared.spans[~prepared.counted].ravel().tolist()
    assert text[begin:end] == 'She wrote: "There is nothing to see here at all."'


@pytest.mark.parametrize(
    ("quotation", "own", "counts"),
    [
        ("word " * 99, OWN, False),
        ("word " * 101, OWN, True),
        ("word " * 99, "own " * 190, True),  # a third of the text is 96 words
        ("word " * 60 + '" and "' + "word " * 60, OWN, False),
    ],
)
def test_long_and_many_quotations_count(quotation: str, own: str, counts: bool) -> None:
    assert classify(f'{own}\n\n"{quotation.strip()}"', '"word word') == ("quotation", counts)


def test_everything_in_quotation_marks_counts() -> None:
    text = "\n\n".join(f'"{paragraph}"' for paragraph in [OWN[:200]] * 9)
    prepared = prepare_text(text)
    assert prepared.counted.all()
    assert prepare_text("\n".join(f"> {line}" for line in text.split("\n")), 3).counted.all()


@pytest.mark.parametrize(
    "heading",
    [
        *("References", "## 7. Works Cited", "**Bibliography:**", "IV. Literaturverzeichnis", "Chapter 8: References"),
        *(
            "R e f e r e n c e s",
            "Literatur- und Quellenverzeichnis",
            "Références bibliographiques",
            "参考文献",
            "Źródła",
        ),
    ],
)
def test_a_list_begins_at_its_heading_and_ends_at_the_next(heading: str) -> None:
    text = f"{OWN}\n\n{heading}\n\n{ENTRIES}\n\nAppendix\n\nMore text of 1998."
    assert find(text, "references") == [f"{heading}\n\n{ENTRIES}"]
    assert classify(text, ENTRIES) == ("references", False)
    assert classify(text, "More text") == (None, True)
    assert find(text, "quotation") == []  # titles in quotation marks are a part of the list


def test_a_list_without_a_heading_has_three_authors() -> None:
    lines = [line for line in ENTRIES.split("\n") if line[0] != "W"]
    assert [text.count("\n") for text in find(f"{OWN}\n" + "\n".join(lines), "references")] == [2]
    assert find(f"{OWN}\n" + "\n".join(lines[:2]), "references") == []
    wrapped = "\n".join(lines).replace(", and", ",\n  and").replace(" of ", "\nof ")
    assert find(f"{OWN}\n\n{wrapped}\n\n{OWN}", "references") == [wrapped]


def test_wrapped_entries_are_a_list_and_prose_below_a_heading_is_none() -> None:
    wrapped = ENTRIES.replace("shipping and", "shipping and\n  ").replace("Journal of", "Journal of\n  ")
    assert find(f"{OWN}\n\nReferences\n{wrapped}", "references") == [f"References\n{wrapped}"]
    prose = "The harbour was dredged in 1998, and nobody who lived there then has forgotten the noise that it made, "
    assert find(f"Sources\n\n{prose}or the smell of the mud.\n\n{OWN}", "references") == []
    assert find(f"References\n\n{OWN}", "references") == []


def test_a_list_of_most_of_the_text_counts() -> None:
    assert classify(f"A short note.\n\nReferences\n{ENTRIES}", ENTRIES) == ("references", True)


HOSTILE = st.lists(
    st.sampled_from(
        ['"', "“", "”", "„", "«", "»", "‘", "’", "‚", "「", "\n", "\n\n", ">", " ", "a", "References\n", "1998"]
    )
)


@given(HOSTILE)
@settings(max_examples=60, deadline=None)
def test_parts_of_hostile_texts_are_in_order_and_apart(pieces: list[str]) -> None:
    text = "".join(pieces) * 500
    prepared = prepare_text(text, 1)
    spans = np.concatenate([part.spans for part in prepared.parts])
    spans = spans[np.argsort(spans[:, 0])]
    assert (spans[:, 0] < spans[:, 1]).all()
    assert (spans[:-1, 1] <= spans[1:, 0]).all()
    assert spans.size == 0 or spans[-1, 1] <= len(text)
    assert len(prepared.counted) == len(prepared.units)
    covered = np.zeros(len(text) + 1, bool)
    for part in prepared.parts:
        for begin, end in part.excluded.tolist():
            covered[begin:end] = True
    shares = [covered[begin:end].mean() for begin, end in prepared.spans[:200].tolist()]
    assert (np.array(shares) < 0.5).tolist() == prepared.counted[:200].tolist()


def test_many_marks_take_no_longer_than_many_letters() -> None:
    for mark in (
        '"a ',
        "'a b c d e ",
        "他'a b c d e ",
        "<q>",
        f"{'a' * 30}\n— ",
        "``",
        "“\n\n",
        "    a\n",
        "a\n\n" + "        a\n" * 40,
        " ",
        "\xa0",
        "“",
        "‘a",
        "“„«»",
        "\n> ",
        "References\n",
        "A. A. 1998\n",
        '\n "',
        "« ‹ ‚ 「 “",
        "[quote ",
        f"> {'a' * 60}\nb\n",
        "A. Aa, 1998 www.\n",
        f"A. Aa, 1998 {'www.' * 70}\n\n",
        "A, p. 1 ",
        ". . . . 1\n",
        "Contents\na 1\nb\n",
        "Declaration\n\na\n\n",
        "of the ",
        '"a" (\n',
        '"a" (a b ',
        "「a」（",
        '"a "b" ',
        "a 1 | 2;\n",
        "[a]b\n",
        "it reads ",
        "A B: \n\n",
    ):
        text = mark * (10_000 // len(mark))
        find_reference_lists(text)
        assert len(prepare_text(text).parts) == 5


@pytest.mark.parametrize("heading", ["References Cited", "Quellenverzeichnis", "2 Literature"])
def test_prose_that_cites_below_a_heading_is_no_list(heading: str) -> None:
    prose = (
        "Fog signals have been studied by historians (Adler, 2009), by economists of\nfishing towns (Brandt, 2014). "
    )
    prose += "Adler (2009)\ndescribes how the keepers bought their own oil. Carver (1998) argues\nthat nobody sold one."
    entries = "Adler, M. (2009). Keepers of the coast: A history of harbour lights.\nNorthgate Press.\n"
    entries += "Brandt, O., & Lund, K. (2014). Fog signals and the fishing towns of\nthe north."
    assert find(f"Own words.\n\n{heading}\n\n{prose}\n", "references") == []
    assert find(f"Own words.\n\n{heading}\n\n{entries}\n", "references") == [f"{heading}\n\n{entries}"]


def test_a_table_of_contents_is_in_order_of_pages() -> None:
    table = f"Contents\n\n1 Introduction {'.' * 120} i\n2 A title that takes two\nlines ........ 5\n3 Conclusion\t12"
    assert find(f"{OWN}\n\n{table}\n\n{OWN}", "formal") == [table]
    assert find(f"{OWN}\n\nSoup .... 9\nFish .... 14\nCake .... 6\n\n{OWN}", "formal") == []
    assert find(f"{OWN}\n\n#define A 1\n#define B 2\n#define C 3\n\n{OWN}", "formal") == []


@pytest.mark.parametrize(
    ("heading", "words", "counts"),
    [
        *(
            (heading, 90, False)
            for heading in ("Statement of originality", "**Honour code**", "5. Student declaration:")
        ),
        *((heading, 90, False) for heading in ("Déclaration sur l'honneur", "Selbständigkeitserklärung", "致谢")),
        *((heading, 90, True) for heading in ("Declaration of Independence", "Code", "A statement")),
        ("Declaration", 101, True),
    ],
)
def test_a_short_declaration_does_not_count(heading: str, words: int, counts: bool) -> None:
    declaration = "I declare this" + " honestly" * (words - 3)
    text = f"{OWN}\n\n{heading}\n\n{declaration}.\n\nAn end\n\n{OWN}"
    assert classify(text, declaration) == ((None, True) if counts else ("formal", False))
    assert classify(text, "An end\n\nA") == (None, True)
    longer = f"{heading}\n\n{declaration} and more."
    both = f"{longer}\n\n{text.removeprefix(OWN)}"
    assert classify(both, f"{declaration} and more") == (None, True)
    assert classify(both, f"{declaration}.") == ((None, True) if counts else ("formal", False))


@pytest.mark.parametrize("label", ["", "[3] ", "1 ", "1"])
def test_the_source_of_a_footnote_may_go_on_in_the_next_line(label: str) -> None:
    entry = f"{label}Okafor, B. (2011). The gate and the garden. Journal of Urban Plots, 14(2),\n33-51. https://doi.org/10.1/7"
    assert find(f"{OWN}\n{entry}", "references") == [entry]


@pytest.mark.parametrize(("mark", "is_page"), [("", True), ("- ", False), ("  • ", False)])
def test_lines_before_the_first_sentence_are_a_title_page_unless_they_are_a_list(mark: str, is_page: bool) -> None:
    page = "\n\n".join(
        f"{mark}{line}" for line in ("University of Northern Harbour", "History 101", "Anna Berg", "5 May")
    )
    assert find(f"{page}\n\n{OWN}\n\n{OWN}", "formal") == [f"{page}\n"] * is_page
