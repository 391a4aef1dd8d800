"""What makes a text look otherwise than it is compared."""

import pytest

from pan_scdg.text.disguise import find_disguise

WORDS = "The keeper of the lighthouse lit the lamp every evening, and nobody in the harbour wrote down his name."


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("\u202e" + WORDS[::-1], "U+202E RIGHT-TO-LEFT OVERRIDE"),
        ("".join(f"\u2066{letter}\u2069" for letter in WORDS), "U+2066 LEFT-TO-RIGHT ISOLATE"),
        (" ".join(WORDS.replace(" ", "")), "spaces between letters"),
        ("\n".join(WORDS.replace(" ", "")), "spaces between letters"),
    ],
)
def test_disguised_texts_are_named(text: str, names: str) -> None:
    assert find_disguise(f"Before.\n\n{text}\n\nAfter.") == names


@pytest.mark.parametrize(
    "text",
    [
        WORDS,
        f"\u202b{WORDS}\u202c",  # one embedding, as in a text that quotes another script
        "a b c d e f g h i j k l m n o p q r s t u v w x y z",
        " ".join("港口主管每天晚上清点船只" * 9),
        "1 2 3 4 5 6 7 8 9 " * 9,
    ],
)
def test_others_are_not(text: str) -> None:
    assert find_disguise(text) == ""
