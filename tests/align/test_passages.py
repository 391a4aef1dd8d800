"""Passages of two texts: where they begin and end, and what is none."""

import random
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.align import passages
from pan_scdg.align.locator import (
    MIN_PARAGRAPH_LENGTH,
    MIN_PARAGRAPHS,
    PassageLocator,
    average_sentences,
    match_paragraphs,
)
from pan_scdg.align.passages import MIN_COPY_WORDS, Alignment, extend_copies, find_counterparts
from pan_scdg.align.vectors import EncodedText
from pan_scdg.records import MeasuredPassage, Passage, Span
from pan_scdg.text.units import prepare_text


def list_measured(
    target: str, source: str, encode: Callable[[str], EncodedText] | None = None
) -> list[MeasuredPassage]:
    alignment = Alignment(prepare_text(target), prepare_text(source))
    paragraphs = [] if encode is None else match_paragraphs(alignment, lambda: (encode(target), encode(source)))
    return alignment.restore(alignment.list_measured(paragraphs))


def align_texts(target: str, source: str, encode: Callable[[str], EncodedText] | None = None) -> list[Passage]:
    return [evidence.passage for evidence in list_measured(target, source, encode)]


SYLLABLES = ("ba", "re", "mo", "ti", "lu", "san", "dor", "vel", "kip", "fen", "gur", "hal")


def make_sentences(count: int, seed: int) -> list[str]:
    """Sentences of made-up words; two seeds have hardly a word in common."""
    rng = random.Random(seed)
    words = ["".join(rng.choices(SYLLABLES, k=4)) for _ in range(400)]
    return [" ".join(rng.choices(words, k=rng.randint(8, 18))).capitalize() + "." for _ in range(count)]


def cut(text: str, passage: Passage, source: bool = False) -> str:
    return text[slice(*(passage.source if source else passage.target))]


@given(st.integers(4, 12), st.integers(0, 20), st.integers(0, 20), st.sampled_from([" ", "\n", "\r\n\r\n", " \t "]))
@settings(max_examples=30, deadline=None)
def test_a_copied_passage_is_found_with_exact_ends(count: int, place: int, source_place: int, between: str) -> None:
    copied = between.join(make_sentences(count, 1))
    target, source = make_sentences(20, 2), make_sentences(20, 3)
    target.insert(place, copied)
    source.insert(source_place, copied)
    texts = between.join(target), between.join(source)
    (found,) = align_texts(*texts)
    assert cut(texts[0], found) == cut(texts[1], found, source=True) == copied.rstrip(".")


@pytest.mark.parametrize(("words", "is_marked"), [(MIN_COPY_WORDS, True), (MIN_COPY_WORDS - 1, False)])
def test_a_short_copy_is_marked_beside_a_longer_one(words: int, is_marked: bool) -> None:
    long, said = " ".join(make_sentences(8, 1)), "if the sea is calm at ten we all go out to the bar for cod"
    short = " ".join(said.split()[:words])
    before, after = (" ".join(make_sentences(6, seed)) for seed in (2, 3))
    target, source = f"{before} {long} {after} So {short}, they say.", f"{long} He said: {said}."
    passages = [cut(target, evidence.passage) for evidence in PassageLocator().locate(target, source)]
    assert passages == [long.rstrip("."), *([short] if is_marked else [])]
    assert PassageLocator().locate(f"{before} So {short}, they say.", source) == []


@pytest.mark.parametrize(("sources", "parts"), [(4, 7), (2, 7), (1, 1)])
def test_passages_of_a_patchwork_end_where_the_evidence_ends(sources: int, parts: int) -> None:
    halves = [make_sentences(14, seed) for seed in range(1, sources + 1)]
    texts = [[f"{a[:-1]} {b.lower()}" for a, b in zip(text[::2], text[1::2])] for text in halves]
    target = " ".join(sentence for row in zip(*texts) for sentence in row)
    for text in texts:
        found = PassageLocator().locate(target, " ".join(text))
        expected = text if parts > 1 else [" ".join(text)]
        assert [cut(target, one.passage) for one in found] == [sentence.rstrip(".") for sentence in expected]
        assert min(one.verbatim for one in found) == 1


def test_text_of_ones_own_in_a_copy_is_part_of_the_passage() -> None:
    copied, own = make_sentences(9, 1), make_sentences(2, 2)
    target = " ".join([*copied[:4], own[0], *copied[4:], own[1]])
    (found,) = PassageLocator().locate(target, " ".join(copied))
    assert cut(target, found.passage) == " ".join([*copied[:4], own[0], *copied[4:]]).rstrip(".")


def test_a_copy_in_the_middle_of_sentences() -> None:
    copied = " ".join(make_sentences(6, 1))[20:-20].strip()
    target, source = (" ".join(make_sentences(9, seed)) for seed in (2, 3))
    texts = f"{target[:200]} {copied} {target[200:]}", f"{source[:300]} {copied} {source[300:]}"
    (found,) = align_texts(*texts)
    assert copied in cut(texts[0], found)
    assert found.target.length - len(copied) < 30  # parts of words at both cuts


def shuffle_words(sentence: str, seed: int) -> str:
    """The sentence with neighbouring words exchanged and every seventh word replaced."""
    words = sentence.rstrip(".").split()
    for i in range(0, len(words) - 1, 2):
        words[i], words[i + 1] = words[i + 1], words[i]
    return " ".join("other" if i % 7 == seed % 7 else word for i, word in enumerate(words)) + "."


def test_a_reworded_passage_is_found_by_its_sentences() -> None:
    original = make_sentences(8, 1)
    reworded = [shuffle_words(sentence, i) for i, sentence in enumerate(original)]
    before, around = make_sentences(15, 2), make_sentences(15, 3)
    target = " ".join([*before[:5], *reworded, *before[5:]])
    source = " ".join([*around[:9], *original, *around[9:]])
    (found,) = align_texts(target, source)
    assert cut(target, found) == " ".join(reworded)
    assert cut(source, found, source=True) == " ".join(original)


def test_passages_from_two_places_stay_two() -> None:
    first, second = make_sentences(6, 1), make_sentences(6, 4)
    target = " ".join([*make_sentences(5, 2), *first, *make_sentences(9, 5), *second])
    source = " ".join([*second, *make_sentences(12, 3), *first])
    found = align_texts(target, source)
    assert [cut(target, p) for p in found] == [" ".join(part).rstrip(".") for part in (first, second)]


def test_a_summary_is_one_passage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passages, "GAP", 2)
    original = make_sentences(41, 1)
    summary = [shuffle_words(original[i], i) for i in range(0, 41, 5)]
    target = " ".join([*make_sentences(10, 2), *summary, *make_sentences(10, 3)])
    (found,) = align_texts(target, " ".join(original))
    assert cut(target, found) == " ".join(summary)
    assert found.source.length > 3 * found.target.length


@pytest.mark.parametrize(
    ("target", "source"),
    [
        ("", ""),
        ("A text.", ""),
        ("", "A text."),
        ("...", "---\n\n---"),
        ("word " * 3000, "word " * 3000),
        ("Same short sentence. " * 2000, "Same short sentence. " * 2000),
        ("\ud800 lone \udfff", "\x00\x1b"),
        ("語" * 500, "語" * 500),
    ],
)
def test_odd_texts(target: str, source: str) -> None:
    for found in align_texts(target, source):
        assert found.target.length
        assert found.source.length
        assert found.target.end <= len(target)
        assert found.source.end <= len(source)


def test_unrelated_texts_have_no_passage() -> None:
    for seed in range(0, 40, 2):
        target, source = (" ".join(make_sentences(40, seed + i + 100)) for i in (0, 1))
        assert align_texts(target, source) == []


free_text = st.lists(st.sampled_from([*make_sentences(6, 1), "\n\n", "one two", "-\n", "\u00ad", "ａ"]), max_size=30)


@pytest.mark.parametrize(("sentences", "similar", "is_joined"), [(2, 1, True), (2, 0, False), (9, 9, False)])
def test_places_of_one_rewritten_passage_are_joined(sentences: int, similar: int, is_joined: bool) -> None:
    first, second = make_sentences(6, 1), make_sentences(6, 4)
    target, source = (" ".join([*first, *make_sentences(sentences, seed), *second]) for seed in (2, 3))
    alignment = Alignment(prepare_text(target), prepare_text(source))
    found = alignment.list_measured()
    assert [cut(target, one.passage) for one in found] == [" ".join(part).rstrip(".") for part in (first, second)]
    is_related = np.zeros(len(alignment.target.units), bool)
    is_related[6 : 6 + similar] = True
    joined = alignment.join_neighbours(found, is_related)
    assert (len(joined) == 1) == is_joined
    assert [joined[0].target.begin, joined[-1].target.end] == [0, len(target) - 1]
    quoted = [found[0]._replace(counts=False), found[1]]
    assert alignment.join_neighbours(quoted, is_related) == quoted
    swapped = Alignment(prepare_text(target), prepare_text(" ".join([*second, *first])))
    assert len(swapped.join_neighbours(swapped.list_measured(), ~is_related)) == 2


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        (Span(50, 900), Span(860, 1000), Span(50, 1000)),
        (Span(50, 900), Span(500, 1000), Span(50, 1000)),
        (Span(50, 900), Span(500, 700), Span(50, 900)),
        (Span(50, 900), Span(390, 1000), None),
        (Span(50, 400), Span(40, 500), None),
    ],
)
def test_neighbours_may_overlap_in_the_source(first: Span, second: Span, joined: Span | None) -> None:
    prepared = prepare_text(" ".join(make_sentences(40, 1)))
    alignment = Alignment(prepared, prepared)
    places = [Passage(Span(0, 200), first), Passage(Span(201, 400), second)]
    evidence = [alignment.measure(place)._replace(counts=True) for place in places]
    found = alignment.join_neighbours(evidence, np.zeros(len(prepared.units), bool))
    assert [one.passage for one in found] == ([Passage(Span(0, 400), joined)] if joined else places)


def test_a_copy_ends_with_the_headings_that_were_copied_and_before_its_neighbours() -> None:
    first, second = (" ".join(make_sentences(6, seed)) for seed in (1, 4))
    shared = f"Chapter on Lamps\n\n{first}\n\nNotes of the Author"
    target = f"{make_sentences(1, 2)[0]}\n\n{shared}\n\nA Word of Mine\n\n{second}\n\n{make_sentences(1, 5)[0]}"
    source = f"{second}\n\n{shared}\n\n{make_sentences(1, 3)[0]}"
    found = list_measured(target, source)
    assert [cut(target, one.passage) for one in found] == [first.rstrip("."), second.rstrip(".")]
    extended = extend_copies(reversed(found), target, source)
    for text, is_source in ((target, False), (source, True)):
        assert [cut(text, one.passage, is_source) for one in extended] == [shared, second.rstrip(".")]
    reworded = [one._replace(verbatim=0.5) for one in found]
    assert extend_copies(reworded, target, source) == reworded
    assert extend_copies(list_measured(first, first), first + second, first + second)[0].target == (
        0,
        len(first + second) - 1,
    )


@given(free_text, free_text)
@settings(max_examples=60, deadline=None)
def test_passages_are_in_order_and_never_overlap(target: list[str], source: list[str]) -> None:
    found = align_texts(" ".join(target), " ".join(source))
    for first, second in zip(found, found[1:]):
        assert first.target.end <= second.target.begin


@pytest.mark.parametrize(
    "disguise",
    [
        lambda text: text.replace("a", "а").replace("o", "о"),  # Cyrillic
        lambda text: text.replace("er", "e\u00adr").replace("ol", "o\u200bl"),
        lambda text: text.upper(),
        lambda text: text.replace("german", "ger-\n    man"),
    ],
    ids=["lookalikes", "invisible", "case", "hyphenation"],
)
def test_disguised_copies_are_found_at_the_original_offsets(disguise: "type[str]") -> None:
    copied = (
        "The woman who mends the nets of the old harbour told us that the german collectors had come for the salt, "
        "not for the herring, and that a longer tolerance for manual labour would have saved the humane old order."
    )
    target, source = (" ".join(make_sentences(9, seed)) for seed in (2, 3))
    hidden = disguise(copied)
    texts = f"{target} {hidden} {target[::-1]}", f"{source} {copied} {source[::-1]}"
    (found,) = align_texts(*texts)
    assert cut(texts[0], found) == hidden.rstrip(".")
    assert cut(texts[1], found, source=True) == copied.rstrip(".")


def encode_marks(text: str) -> EncodedText:
    """A direction for each sentence: the mark ``#n`` of its paragraph names it; without one, the paragraph's own."""
    prepared = prepare_text(text)
    vectors = np.zeros((len(prepared.units), 300), np.float32)
    for i, start in enumerate(prepared.spans[:, 0].tolist()):
        paragraph = re.split(r"\n\s*\n", text[:start])[-1] + re.split(r"\r?\n\s*\n", text[start:])[0]
        mark = paragraph.partition("#")[2][:2]
        vectors[i, int(mark) if mark else 100 + sum(map(ord, paragraph)) % 200] = 1
    return EncodedText(prepared, vectors)


def test_rewritten_paragraphs_are_matched_and_joined_only_where_both_sides_adjoin() -> None:
    def paragraphs(marks: list[str], seed: int) -> list[str]:
        return [f"{mark} {' '.join(make_sentences(3, seed + i))}" for i, mark in enumerate(marks)]

    target = paragraphs(["", "#01", "#02", "#03", "", "#07", ""], 10)
    source = paragraphs(["#03", "", "#01", "#02", "", "#07", "#07"], 50)
    texts = "\n\n".join(target), "\r\n \r\n".join(source)
    found = align_texts(*texts, encode_marks)
    assert [cut(texts[0], p) for p in found] == ["\n\n".join(target[1:3]), target[3]]
    assert [cut(texts[1], p, source=True) for p in found] == ["\r\n \r\n".join(source[2:4]), source[0]]
    assert align_texts("\n\n".join(target[:4]), texts[1], encode_marks) == []


def test_a_paragraph_has_the_mean_direction_of_its_sentences() -> None:
    paragraphs, sentences = np.array([[10, 20], [25, 40], [50, 60]]), np.array([[0, 8], [10, 14], [15, 19], [24, 39]])
    vectors = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0.6, 0.8]], np.float32)
    expected = [[0.5**0.5, 0.5**0.5, 0], [0, 0.6, 0.8], [0, 0, 0]]
    np.testing.assert_allclose(average_sentences(paragraphs, sentences, vectors), expected, atol=1e-7)
    assert average_sentences(paragraphs, sentences[:0], vectors[:0]).tolist() == np.zeros((3, 3)).tolist()


def test_paragraphs_without_words_match_nothing() -> None:
    def encode(text: str) -> EncodedText:
        prepared = prepare_text(text)
        return encode_marks(text) if len(prepared.units) else EncodedText(prepared, np.zeros((0, 0), np.float32))

    blank = "\n\n".join(["-" * MIN_PARAGRAPH_LENGTH] * MIN_PARAGRAPHS)
    words = "\n\n".join(" ".join(make_sentences(3, seed)) for seed in range(MIN_PARAGRAPHS))
    for texts in ((blank, words), (words, blank), (blank, blank)):
        assert align_texts(*texts, encode) == []


def test_the_evidence_of_a_passage() -> None:
    copied, around = make_sentences(6, 1), [" ".join(make_sentences(12, seed)) for seed in (2, 3)]
    target, source = (f"{text} {' '.join(copied)}" for text in around)
    (copy,) = list_measured(target, source)
    assert copy.similarity == pytest.approx(1)
    assert copy.verbatim == 1
    reworded = " ".join(shuffle_words(sentence, i) for i, sentence in enumerate(copied))
    (found,) = list_measured(f"{around[0]} {reworded}", f"{around[1]} {' '.join(copied)}")
    assert 0.5 < found.similarity < 0.99
    assert found.verbatim == 0
    line = found.to_json()
    assert (line["begin"], line["end"]) == (found.target.begin, found.target.end)
    assert (line["begin2"], line["end2"]) == found.source
    assert (line["counts"], line["within"]) == (True, None)


OTHERS = (
    "Beekeepers count mites on a white board every second week of the summer.",
    "A choir of forty voices rehearsed in the old brewery until the roof leaked.",
    "Concrete bridges need new bearings after thirty winters of salt.",
)
TIDE = (
    "The tide turned before noon, and the nets of the village came up empty.",
    "Nobody on the quay said a word about it; the harbour master wrote the hour into his book.",
    "In the evening the boats left again, further out, towards the sandbank.",
)
PASSAGE = (
    "Before noon the tide had turned and the village pulled up empty nets. The harbour master noted the hour in a book "
    "while the quay kept silent. By evening, boats went out again to the sandbank."
)


@pytest.mark.parametrize("place", range(4))
def test_all_of_a_reworded_place_is_found_and_nothing_else(place: int) -> None:
    source = " ".join([*OTHERS[:place], *TIDE, *OTHERS[place:]])
    target = f"{OTHERS[0]} {PASSAGE}"
    begin = len(OTHERS[0]) + 1
    (found,) = find_counterparts(target, source, [(begin, len(target))], min_words=3)
    assert found is not None
    assert found.target == (begin, begin + len(PASSAGE))
    assert source[slice(*found.source)] == " ".join(TIDE)
    assert found.verbatim == 0
    assert 0 < found.similarity < 1


def test_without_a_common_word_there_is_no_place() -> None:
    target = "Nur deutsche Wörter stehen hier."
    assert find_counterparts(target, " ".join(TIDE), [(0, len(target))], 3) == [None]
    assert find_counterparts(target, "", [(0, len(target))], 3) == [None]


@pytest.mark.parametrize(
    ("shared", "is_line"),
    [
        ("Write to the Harbour Office, 14 Northgate Street, Harrow Point.", True),
        ("The keeper logged nine nights of fog. The horn was repaired twice that year.", False),
    ],
)
def test_one_short_sentence_is_a_line_in_common_and_two_are_a_copy(shared: str, is_line: bool) -> None:
    target = (
        "Bees dance to tell where flowers are. A hive cools itself in summer. Drones leave before the winter comes."
    )
    source = (
        "Castles had thick walls against the guns. Lords paid masons by the week. Moats were dug when there was time."
    )
    texts = [f"{text} {shared} {' '.join(reversed(text.split()))}." for text in (target, source)]
    line = Alignment(*map(prepare_text, texts)).find_shared_line()
    assert (line is not None and int(line.sum()) == 1) if is_line else line is None
