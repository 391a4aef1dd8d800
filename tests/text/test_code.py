"""Listings of program code, and text that looks like code."""

import pytest

from pan_scdg.text.code import find_code
from pan_scdg.text.units import prepare_text, read_words

PROSE = """The owner sold both grinding stones to a museum. When the flood of 1947 broke the weir, nobody repaired it,
and the pond behind it slowly became a meadow, where the neighbours of the mill (there were few) kept their geese."""
CPP = """#include <iostream>
using namespace std;

class Drink {
  public:
    int volume;
    // constructor
    Drink(int v) {
        volume = v;
        cout << "Volume: " << volume;
    }
};"""
PYTHON = """import random

# creating a list
positions = []
for number in range(0, 10):
    positions.append("O")
ship = random.randint(0, 9)
print(" ".join(positions))"""
HTML = """<ul class="menu">
  <li><a href="/">Home</a></li>
</ul>"""


def list_code(text: str) -> list[str]:
    return [text[begin:end] for begin, end in find_code(text, read_words(text).words[:, 0])]


@pytest.mark.parametrize("code", [CPP, PYTHON, HTML, "x = 2;\ny = f(x);\nreturn y;"])
def test_a_listing_is_no_part_of_a_text_and_most_of_a_program(code: str) -> None:
    text = f"{PROSE}\n\n{code}\n\n{PROSE}"
    assert list_code(text) == [code]
    assert prepare_text(text).forms == read_words(f"{PROSE}\n\n{PROSE}").forms
    program = prepare_text(f"{code}\n\nIt prints nothing at all.")
    assert program.is_program
    assert program.forms == read_words(f"{code} It prints nothing at all.").forms
    assert [program.text[begin:end].split() for begin, end in program.spans[program.counted].tolist()] == [
        ["It", "prints", "nothing", "at", "all."]
    ] * bool(program.counted.any())


@pytest.mark.parametrize(
    "text",
    [
        PROSE,
        "Lice (Phthiraptera)\nBeetles (Coleoptera)\nFlies (Diptera)\nBees (Hymenoptera)",
        "- for the first time;\n- while it rained;\n- if nobody came;",
        "The demand is:\nQ = 10 - 2P\nNobody buys more (see above).",
        "Import duties rose. From then on, class mattered;\nelse, they said, return home.\nWhile we wait: nothing.",
    ],
)
def test_text_that_looks_like_code(text: str) -> None:
    assert list_code(text) == []


def test_prose_between_listings_is_no_code() -> None:
    assert list_code(f"{CPP}\n\n{PROSE}\n\n{PYTHON}") == [CPP, PYTHON]


def test_a_heading_within_a_program_is_no_part_of_it() -> None:
    heading = "3 Proposed Method and Model"
    first, second = CPP.split("\n\n")
    whole = prepare_text(CPP)
    for text in (f"{first}\n\n{heading}\n\n{second}", f"{heading}\n\n{CPP}"):
        program = prepare_text(text)
        assert program.is_program
        assert program.forms == whole.forms
        assert not program.counted.any()
