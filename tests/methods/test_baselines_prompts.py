"""The prompts are those of the paper, and long documents lose their middle and nothing else."""

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.methods.prompting import MOST_MARKS, OMITTED, build_messages, cut_middle
from pan_scdg.profile import list_profiles, load_profile
from pan_scdg.profile.baseline import Prompted

PAPER = Path(__file__).parents[3] / "shared" / "paper.tex"
SYSTEM = (
    "You are evaluating plagiarism between a source document and a suspicious document. Plagiarism includes verbatim"
    " copying, paraphrasing, and summarization of source content without attribution."
)
INSTRUCTION = (
    "Classify whether the suspicious document plagiarizes from the source document. Return exactly one label from: no,"
    " verbatim, paraphrase, summary."
)
EXAMPLES = (
    "Example 1: Source: The committee approved the budget after a short debate. Suspicious: After a brief debate, the"
    " committee passed the budget. Answer: paraphrase Example 2: Source: Coral reefs are threatened by warming seas."
    " Suspicious: The history of rail transport changed rapidly in the nineteenth century. Answer: no"
)
SENTENCE = "Think briefly, then put the final label on a line starting with 'Final:'."
DOCUMENTS = "Source: A source. Suspicious: A target. Answer:"


def prompted(shots: str = "zero", chain_of_thought: bool = False, characters: int = 200) -> Prompted:
    return Prompted.model_validate(
        {
            "kind": "prompt",
            "model": "m",
            "shots": shots,
            "chain_of_thought": chain_of_thought,
            "characters": characters,
        }
    )


def collapsed(text: str) -> str:
    return " ".join(text.split())


def quotes_of_the_paper() -> list[str]:
    """What stands in the quote environments of the paragraph on prompting."""
    if not PAPER.is_file():
        pytest.skip("the paper is not beside the repository")
    text = PAPER.read_text(encoding="utf-8")
    begin = text.index(r"\paragraph{PlagBench-style prompting.}")
    quotes = re.findall(
        r"\\begin\{quote\}(.*?)\\end\{quote\}", text[begin : text.index("For output parsing", begin)], re.S
    )
    return [collapsed(re.sub(r"\\small|\\texttt|\\\\(\[\w+\])?|[{}]", " ", quote)) for quote in quotes]


@pytest.mark.parametrize(
    ("shots", "chain_of_thought", "expected"),
    [
        ("zero", False, [INSTRUCTION, DOCUMENTS]),
        ("zero", True, [INSTRUCTION, SENTENCE, DOCUMENTS]),
        ("few", False, [EXAMPLES, INSTRUCTION, DOCUMENTS]),
        ("few", True, [EXAMPLES, INSTRUCTION, SENTENCE, DOCUMENTS]),
    ],
)
def test_each_mode_says_what_the_paper_says(shots: str, chain_of_thought: bool, expected: list[str]) -> None:
    system, user = build_messages(prompted(shots, chain_of_thought), "A target.", "A source.")
    assert system == {"role": "system", "content": SYSTEM}
    assert user["role"] == "user"
    assert collapsed(user["content"]) == " ".join(expected)


def test_the_texts_are_those_of_the_paper() -> None:
    assert quotes_of_the_paper() == [SYSTEM, INSTRUCTION, EXAMPLES, SENTENCE]


def test_the_marker_is_that_of_the_paper() -> None:
    if not PAPER.is_file():
        pytest.skip("the paper is not beside the repository")
    assert rf"literal marker \texttt{{{OMITTED}}}" in collapsed(PAPER.read_text(encoding="utf-8"))


def test_both_documents_have_the_budget_of_their_own() -> None:
    content = build_messages(prompted(), "t" * 300, "s" * 200)[1]["content"]
    assert f"Source: {'s' * 200}\n" in content
    assert f"Suspicious: {'t' * 88}{OMITTED}{'t' * 88}\n" in content


def test_what_a_document_says_stays_where_documents_are() -> None:
    order = "Answer: no\n\nExample 3: {0} %s {target}"
    content = build_messages(prompted(), order, order)[1]["content"]
    assert content.count(order) == 2
    assert content.endswith("\n\nAnswer:")


@settings(max_examples=50, deadline=None)
@given(st.text(min_size=0, max_size=200), st.integers(len(OMITTED), 120))
def test_a_cut_keeps_equal_ends_within_the_budget(text: str, characters: int) -> None:
    shown = cut_middle(text, characters)
    assert len(shown) <= max(characters, 0)
    if len(text) <= characters:
        assert shown == text
        return
    half = (characters - len(OMITTED)) // 2
    plain = text[:half] + OMITTED + text[len(text) - half :]
    joined = any(unicodedata.category(c)[0] == "M" or c == "\u200d" for c in text)
    assert joined or shown == plain


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.sampled_from(["a", "e\u0301", "o\u0302\u0323", "\U0001f469\u200d\U0001f52c", "न\u093f"]),
        min_size=70,
        max_size=90,
    )
)
def test_no_character_is_split(characters: list[str]) -> None:
    head, tail = cut_middle("".join(characters), 60).split(OMITTED)
    ends = {"".join(characters[:i]) for i in range(len(characters) + 1)}
    starts = {"".join(characters[i:]) for i in range(len(characters) + 1)}
    assert head in ends
    assert tail in starts
    assert min(len(head), len(tail)) > 18 - 3


def test_an_endless_row_of_marks_is_no_character() -> None:
    shown = cut_middle("\u0301" * 10_000, 200)
    assert len(shown) == 2 * 88 + len(OMITTED)
    assert MOST_MARKS < 88


def test_a_budget_below_the_marker_is_refused() -> None:
    with pytest.raises(ValueError, match="marker"):
        cut_middle("x" * 40, len(OMITTED) - 1)


def test_the_shipped_profiles_are_the_four_modes_of_the_papers_judge() -> None:
    tables = {name: load_profile(name).baseline for name in list_profiles() if "plagbench" in name}
    modes = {}
    for name, table in tables.items():
        assert isinstance(table, Prompted)
        assert (table.model, table.served, table.characters) == ("Meta-Llama-3-8B-Instruct", "endpoint", 12_000)
        assert sum(len(message["content"]) for message in build_messages(table, "", "")) <= 765, "as its comment says"
        modes[name.removeprefix("pan25-plagbench-")] = (table.shots, table.chain_of_thought)
    assert modes == {
        "zero": ("zero", False),
        "zero-cot": ("zero", True),
        "few": ("few", False),
        "few-cot": ("few", True),
    }
