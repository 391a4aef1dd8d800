"""Answers are read by the paper's rules, whatever a model writes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.methods.prompting import MEANING, SCORES, Label, parse_label

WORDS = ("verbatim", "paraphrase", "summary", "yes", "no")


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("no", "no"),
        ("  Verbatim.", "verbatim"),
        ("**PARAPHRASE**", "paraphrase"),
        ("Answer:summary", "summary"),
        ("Yes", "paraphrase"),
        ("", "unknown"),
        ("I cannot say.", "unknown"),
        ("The texts share no sentence, so it is no summary and no verbatim copy.", "verbatim"),
        ("yes or no", "paraphrase"),
        ("It is paraphrased and summarised.", "unknown"),
        ("nobody noticed; verbatimly; no_one", "unknown"),
        ("The passage is verbatim at first.\nFinal: paraphrase", "paraphrase"),
        ("final: **no**, nothing verbatim", "no"),
        ("Final:\nsummary", "summary"),
        ("Final: yes", "paraphrase"),
        ("I must end with 'Final:' and verbatim is wrong.\nFinal: no", "no"),
        ("Final: no\nFinal: summary", "summary"),
        ("Final: summary\nFinal: undecided", "summary"),
        ("It is verbatim. Final:", "verbatim"),
        ("Semifinal: no. It is verbatim.", "verbatim"),
        ("verbat\u0131m paraphra\u017fe", "unknown"),
    ],
)
def test_rules_of_the_paper(answer: str, label: Label) -> None:
    assert parse_label(answer) == label


def test_scores_of_the_paper() -> None:
    assert SCORES == {"no": 0.0, "summary": 0.6, "paraphrase": 0.8, "verbatim": 1.0, "unknown": 0.5}
    assert tuple(MEANING) == WORDS


def literal(answer: str) -> str:
    """The paper's paragraph on output parsing, once more, for answers of plain words parted by spaces."""
    words = answer.split(" ")
    if "Final:" in words:
        final = [i for i, word in enumerate(words) if word == "Final:"]
        for i in reversed(final):
            following = [word for word in words[i + 1 :] if word == "Final:" or word in WORDS]
            if following and following[0] != "Final:":
                return {"yes": "paraphrase"}.get(following[0], following[0])
    for word in WORDS:
        if word in words:
            return {"yes": "paraphrase"}.get(word, word)
    return "unknown"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*WORDS, "Final:", "maybe", "nothing"]), max_size=8))
def test_equals_a_literal_reading(words: list[str]) -> None:
    assert parse_label(" ".join(words)) == literal(" ".join(words))


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_every_answer_has_one_label_with_a_score(answer: str) -> None:
    assert 0 <= SCORES[parse_label(answer)] <= 1
    assert parse_label(answer) == parse_label(answer.upper()) or not answer.isascii()


@settings(max_examples=50, deadline=None)
@given(st.text(), st.sampled_from(WORDS))
def test_a_final_label_wins_over_everything_before_it(before: str, word: str) -> None:
    assert parse_label(f"{before}\nFinal: {word}") == MEANING[word]
