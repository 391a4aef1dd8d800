"""Docstrings, names, titles and words follow the style of CONTRIBUTING.md."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pan_scdg"
PARTS = sorted({path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")})
QUESTIONS = {"What", "Whether", "How", "Where", "Which", "When", "Who", "Why"}
"""First words of indirect questions, which are no titles and no docstrings."""
NOUN_PHRASES = {"The", "A", "An", "All", "One", "Each", *QUESTIONS}
"""First words of docstrings that do not say in the imperative what a function returns or does."""
ENDINGS = ("_of", "_there")
FORBIDDEN = re.compile(
    r"\b(rooms?|so many|there (is|are) none|what (is known|stands for|is behind)|(held|hold|holds) against"
    r"|(come|comes|came|coming) along|told|anew|permit it|ready vectors|in the place of|job 1"
    r"|there (is|are|was|were) no such|(how|so) alike|one behind|scored behind|ends behind the|behind (its|the head)"
    r"|(is|are) not here|goes wrong here|where there are ready|not for this model)\b",
    re.IGNORECASE,
)
"""Words and phrases that a technical writer would not use, or not in this sense."""
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
SOURCES = sorted(
    path
    for folder in ("pan_scdg", "benchmarks", "tools", "training")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".toml", ".j2", ".js", ".css"}
)


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
        if first in NOUN_PHRASES or (_is_property(node) and first not in ("", "Return")):
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


def read_words(path: Path) -> str:
    """Return a text on one line, without the marks of comments, so that phrases are found across line breaks."""
    return re.sub(r"\s+(?:[#*]+ |// )?", " ", path.read_text(encoding="utf-8"))


def list_titles(path: Path) -> list[str]:
    """Return the headings of a page, or the titles of a report's sections and the strings that describe code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    titles = re.findall(r"\bSection\(\s*\"([^\"]+)", text)
    statements = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr)]
    return titles + [n.value for n in statements if isinstance(n, ast.Constant) and isinstance(n.value, str)]


@pytest.mark.parametrize("path", [*PAGES, *SOURCES], ids=lambda path: str(path.relative_to(ROOT)))
def test_no_forbidden_phrase(path: Path) -> None:
    assert [found[0] for found in FORBIDDEN.finditer(read_words(path))] == []


@pytest.mark.parametrize(
    "path", [*PAGES, *(s for s in SOURCES if s.suffix == ".py")], ids=lambda path: str(path.relative_to(ROOT))
)
def test_titles_and_docstrings_are_no_indirect_questions(path: Path) -> None:
    assert [title for title in list_titles(path) if title.split(maxsplit=1)[0].rstrip(",") in QUESTIONS] == []


def test_phrases_are_found_across_lines(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1  # Of none, so\n# many\n")
    assert FORBIDDEN.search(read_words(tmp_path / "a.py"))
    assert FORBIDDEN.search("as offline, in the place of another model")
    assert FORBIDDEN.search("the character after which it begins, and the one behind")
