"""Docstrings and names of functions follow the style of CONTRIBUTING.md, package by package."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "pan_scdg"
PARTS = sorted({path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")})
NOUN_PHRASES = {
    "The",
    "A",
    "An",
    "What",
    "Whether",
    "How",
    "Where",
    "Which",
    "When",
    "Who",
    "Why",
    "All",
    "One",
    "Each",
}
"""First words of docstrings that do not say in the imperative what a function returns or does."""
ENDINGS = ("_of", "_there")


@cache
def _find_functions(part: str) -> tuple[tuple[str, ast.FunctionDef], ...]:
    path = PACKAGE / part
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return tuple(
        (f"{file.relative_to(PACKAGE)}:{node.lineno} {node.name}", node)
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    )


def _is_property(node: ast.FunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def find_noun_phrases(part: str) -> Iterator[str]:
    for place, node in _find_functions(part):
        first = (ast.get_docstring(node) or "").partition(" ")[0]
        if first in NOUN_PHRASES and not _is_property(node):
            yield place


def find_bad_names(part: str) -> Iterator[str]:
    for place, node in _find_functions(part):
        if node.name.endswith(ENDINGS) and not _is_property(node):
            yield place


@pytest.mark.parametrize("part", PARTS)
def test_docstrings_of_functions_are_imperative(part: str) -> None:
    assert list(find_noun_phrases(part)) == []


@pytest.mark.parametrize("part", PARTS)
def test_names_of_functions_begin_with_what_they_do(part: str) -> None:
    assert list(find_bad_names(part)) == []
