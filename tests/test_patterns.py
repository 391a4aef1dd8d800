"""Patterns over foreign text: the work for twice the text is about twice the work, counted in steps."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.regex_steps import StepCounter, list_literals

ROOT = Path(__file__).parents[1]
FOLDERS = ("pan", "documents", "text", "align", "retrieval", "report")
FILES = ("jobs/check_input.py",)
LENGTH, MIN_STEPS, MAX_GROWTH = 30, 150, 2.7
"""Characters of the smaller text, steps from which growth shows, and the largest one for twice the characters."""
SHORT_TEXTS = {"_SINGLE_ENTRY": "an entry of at most MAX_SINGLE_LENGTH characters"}
"""Patterns whose work grows faster, and why that does no harm."""


def list_patterns() -> Iterator[tuple[str, re.Pattern[str], bool]]:
    """Yield name and pattern of each constant, and True if it is only tried at one place of a text."""
    everything = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "pan_scdg").rglob("*.py"))
    paths = [*(path for folder in FOLDERS for path in (ROOT / "pan_scdg" / folder).rglob("*.py"))]
    for path in [*sorted(paths), *(ROOT / "pan_scdg" / file for file in FILES)]:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        source = path.read_text(encoding="utf-8")
        for name, value in vars(import_module(module)).items():
            if isinstance(value, re.Pattern) and re.search(rf"(?m)^(?:\w+, )*{name}\b.* = ", source):
                pattern = value.pattern if isinstance(value.pattern, str) else value.pattern.decode("latin-1")
                uses = set(re.findall(rf"\b{name}\.(\w+)", source if name.startswith("_") else everything)) - {
                    "pattern"
                }
                flags = value.flags & ~re.UNICODE
                yield f"{module}.{name}", re.compile(pattern, flags), bool(uses) and uses <= {"match", "fullmatch"}


PATTERNS = {name: (pattern, is_anchored) for name, pattern, is_anchored in list_patterns()}


def make_texts(pattern: re.Pattern[str], length: int) -> Iterator[str]:
    """Yield texts that repeat one or two characters, among them those that the pattern names."""
    literals = dict.fromkeys([*list_literals(pattern.pattern, pattern.flags)[:12], *"aA \n1."])
    for unit in dict.fromkeys([*literals, *(a + b for a in literals for b in "a \n")]):
        yield from (unit * (length // len(unit)) + end for end in ("", "#"))


@pytest.mark.parametrize("name", [name for name in PATTERNS if name.rpartition(".")[2] not in SHORT_TEXTS])
def test_the_steps_of_a_pattern_grow_as_the_text(name: str) -> None:
    pattern, is_anchored = PATTERNS[name]
    counter = StepCounter(pattern.pattern, pattern.flags)
    for small, large in zip(make_texts(pattern, LENGTH), make_texts(pattern, 2 * LENGTH), strict=True):
        steps = counter.count(small, is_anchored)
        if steps > MIN_STEPS:
            assert counter.count(large, is_anchored) <= MAX_GROWTH * steps, repr(small)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r'"[^"\\]*(?:\\.[^"\\]*)*"', r'a"b\"c"d"e"'),
        (r"(a|ab)(c|bcd)(d*)", "xabcdabcd"),
        (r"(?P<word>\w+)-(?P=word)", "ab-ab x-y"),
        (r"(?<=a)b+?|(?<!a)c{2,3}(?=b)", "abbbcccbcc"),
        (r"(?im)^a.*?$|\bq\Z", "Ab\nxa\na q"),
    ],
)
def test_steps_are_those_of_a_matcher_that_finds_the_same(pattern: str, text: str) -> None:
    assert StepCounter(pattern).find_all(text) == [match.span() for match in re.finditer(pattern, text)]


def test_steps_show_work_that_grows_with_the_square() -> None:
    strings = StepCounter(r'"[^"\\]*(?:\\.[^"\\]*)*"')  # begins again at each quotation mark of a string without end
    assert strings.count(r"\"" * 100) > 3.5 * strings.count(r"\"" * 50)
