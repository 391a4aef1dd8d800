"""What is odd but no error is counted, and told once."""

import pytest

from pan_scdg.errors import UserError
from pan_scdg.notices import Notices


def test_counted_and_told_once_with_the_first_place():
    notices = Notices()
    notices.add("empty document", "c.jsonl:3")
    notices.add("repeated pair", "pairs:9")
    notices.add("empty document", "c.jsonl:7")
    assert notices.list_warnings() == [
        "warning: empty document: 2 times, first at c.jsonl:3",
        "warning: repeated pair: 1 time, first at pairs:9",
    ]


def test_nothing_odd_nothing_said():
    assert Notices().list_warnings() == []


def test_hostile_places_stay_on_one_line():
    notices = Notices()
    notices.add("odd", "a\nerror: forged")
    assert notices.list_warnings() == ["warning: odd: 1 time, first at a\\nerror: forged"]


def test_strict_makes_the_first_one_an_error():
    with pytest.raises(UserError, match=r"^pairs:9: repeated pair. .*--strict"):
        Notices(strict=True).add("repeated pair", "pairs:9")
