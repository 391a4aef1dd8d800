"""The text that many documents share and no source has."""

from collections.abc import Sequence

import pytest

from pan_scdg.align.shared import find_shared, hash_runs

QUESTION = "Why do towns plant trees along their streets, and what does it cost them?"
ESSAY = ". ".join(" ".join(f"copied{i}x{j}" for j in range(12)) for i in range(15)) + "."


def write_answers(count: int, words: int = 60) -> list[str]:
    return [" ".join(f"Own{n}x{i}" + "." * (i % 12 == 11) for i in range(words)) for n in range(count)]


def list_shared(texts: Sequence[str], sources: Sequence[str] = ()) -> list[list[tuple[str, int]]]:
    shared = find_shared([*map(hash_runs, texts)], map(hash_runs, sources))
    return [[(text[one.begin : one.end], len(one.documents)) for one in own] for text, own in zip(texts, shared)]


def test_a_question_is_found_in_upper_case_with_a_slip_and_before_other_words() -> None:
    first, second, third, fourth, *others = write_answers(10)
    slip = QUESTION.replace("trees", "treees")
    texts = [f"{QUESTION}\n{first}", f"Anna, 9b: {QUESTION.upper()} {second}", f"{third}\n\n{slip}", QUESTION, *others]
    texts[4] = f"{QUESTION}\n\n{fourth}"
    texts[5] = f"{texts[5]}\n\n{QUESTION}"
    shared = list_shared(texts)
    assert shared[0] == shared[3] == shared[4] == shared[5] == [(QUESTION, 6)]
    assert shared[1] == [(QUESTION.upper(), 6)]
    assert shared[6:] == [[]] * 4


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([QUESTION] * 2, id="too few"),
        pytest.param([ESSAY] * 10, id="more words than a question"),
        pytest.param([f"In {n} lines at {n} I ask {QUESTION[:50]} {n} of them grow old" for n in range(10)], id="part"),
    ],
)
def test_what_is_no_question(parts: Sequence[str]) -> None:
    texts = [f"{answer}\n{part}" for answer, part in zip(write_answers(10), [*parts, *[""] * 10])]
    assert list_shared(texts) == [[]] * 10


def test_texts_of_one_author_count_once() -> None:
    texts = [hash_runs(f"{QUESTION}\n{answer}") for answer in write_answers(6)]
    authors = ["Anna", "Anna", "", "", "Ben", "Ben"]
    assert find_shared(texts, (), 5, authors) == [[]] * 6
    assert [len(own[0].documents) for own in find_shared(texts, (), 4, authors)] == [6] * 6


def test_the_beginning_of_the_answer_is_no_part_of_the_question() -> None:
    texts = [f"Text {n}.\n{QUESTION} In my view {answer}" for n, answer in enumerate(write_answers(6))]
    assert list_shared(texts) == [[(QUESTION, 6)]] * 6


def test_a_ring_of_short_copies_is_no_question_but_the_question_before_them_is() -> None:
    texts = write_answers(6)
    texts[1] = texts[2] = texts[0]
    texts[3:] = [f"{QUESTION} {text}" for text in texts[3:]]
    texts[0] = f"{QUESTION} {texts[0]}"
    assert list_shared(texts) == [[(QUESTION, 4)], [], [], *[[(QUESTION, 4)]] * 3]


def test_what_a_source_has_counts_unless_many_independent_sources_have_it() -> None:
    texts = [f"{QUESTION} {answer}" for answer in write_answers(6)]
    others = [f"{answer.replace('Own', 'Old')} {QUESTION}" for answer in write_answers(6)]
    assert list_shared(texts, others[:2]) == [[]] * 6
    assert list_shared(texts, [f"{ESSAY} {QUESTION} Again {n}" for n in range(6)]) == [[]] * 6
    copied = [f"{text} {ESSAY}" for text in texts]
    assert list_shared(copied, [ESSAY]) == [[(QUESTION, 6)]] * 6
    assert list_shared(texts, others) == [[(QUESTION, 6)]] * 6
