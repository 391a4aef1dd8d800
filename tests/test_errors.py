"""Errors as the user sees them: one line a fault, which no name in it can forge."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.errors import Interrupted, UserError, UserErrors, escape_controls


def test_place_what_remedy():
    assert str(UserError("bad id", "correct it")) == "bad id. Correct it."
    assert str(UserError("bad id", "correct it", "a.txt")) == "a.txt: bad id. Correct it."
    assert str(UserError("bad id", "correct it", "a.txt", 3)) == "a.txt:3: bad id. Correct it."


def test_hostile_names_cannot_forge_lines_or_colours():
    error = UserError("no\nsuch\tfile", "look", "\x1b[31mred\r\u2028.txt")
    assert str(error) == "\\x1b[31mred\\r\\u2028.txt: no\\nsuch\\tfile. Look."


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_one_line_is_printable_and_keeps_the_printable(text):
    assert escape_controls(text).isprintable()
    assert escape_controls(escape_controls(text)) == escape_controls(text)
    if text.isprintable():
        assert escape_controls(text) == text


def test_several_faults_are_one_error_with_a_line_each():
    faults = [UserError("a", "b", "x", 1), UserError("c", "d", "y\n", 2)]
    together = UserErrors(faults)
    assert isinstance(together, UserError)
    assert together.errors == faults
    assert str(together) == "x:1: a. B.\ny\\n:2: c. D."
    with pytest.raises(ValueError, match="at least one"):
        UserErrors([])


def test_an_interruption_is_no_user_error():
    assert not issubclass(Interrupted, UserError)
