"""Verse, menus and provisions of law, apart from prose that looks a little like them."""

import pytest

from pan_scdg.text.given import is_given

PROSE = (
    "The mill stood empty for eleven years, and nobody in the village could say who had the key to its lower door.\n\n"
)
VERSE = """The miller counts his wooden spoons,
his cat lies in the flour,
the wheel has turned a thousand noons
and will not turn this hour;
a crow sits on the frozen gate
and asks us why we came so late."""
MENU = "Home\nAbout us\nOpening hours\nGroups and schools\nHow to find us\nPress\nAll rights reserved."
LAW = """Section 12. Whoever keeps a mill shall
(a) clear its weir before the first of March; and
(b) leave open a passage for fish."""
SENTENCES = "\n".join(f"The mill has floor {number}.\nIt is locked." for number in range(4))
WRAPPED = """The mill stood empty for eleven years, and
nobody in the village could say who had the
key to its lower door, which is why the boys
climbed in by the wheel, one after another,
until one of them fell and lay in the water
and the others ran home without a word."""


@pytest.mark.parametrize("part", [VERSE, MENU, LAW])
def test_what_is_given(part: str) -> None:
    assert is_given(f"{PROSE}{part}\n\n{PROSE}", len(PROSE), len(PROSE) + len(part))


@pytest.mark.parametrize(
    "part",
    [
        SENTENCES,
        LAW.replace("Section 12. ", ""),
        "Nobody has read section 12.",
        "\n".join(VERSE.splitlines()[:5]),
        PROSE,
    ],
)
def test_what_an_author_may_have_written(part: str) -> None:
    assert not is_given(f"{PROSE}{part}\n\n{PROSE}", len(PROSE), len(PROSE) + len(part))


def test_prose_in_short_lines_is_no_verse() -> None:
    assert not is_given(WRAPPED, 0, len(WRAPPED))
