"""The words of languages: `text/languages.toml`."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import tomlkit

from pan_scdg.text import languages
from pan_scdg.text.formal_parts import find_declarations
from pan_scdg.text.references import name_heading

TABLES = tomlkit.parse(languages.FILE.read_text(encoding="utf-8")).unwrap()


@pytest.mark.parametrize("language", TABLES)
def test_a_table_has_patterns_of_known_kinds_in_the_form_that_they_are_compared_in(language: str) -> None:
    table = TABLES[language]
    assert set(table) <= set(get_args(languages.Kind))
    patterns = [pattern for kind, words in table.items() if kind != "function_words" for pattern in words]
    assert all(re.compile(pattern) for pattern in patterns)
    letters = [re.sub(r"\\[wdsb]", "", pattern) for pattern in patterns]
    assert [name_heading(text) for text in letters if text.isalpha()] == [text for text in letters if text.isalpha()]


@pytest.fixture
def with_finnish_oath(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    caches = (languages.list_words, languages.compile_words, languages._read_tables)
    tables = TABLES | {"made up": {"declarations": ["vakuutus"]}}
    (tmp_path / "languages.toml").write_text(tomlkit.dumps(tables), encoding="utf-8")
    monkeypatch.setattr(languages, "FILE", tmp_path / "languages.toml")
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


DECLARATION = "Teksti.\n\nVakuutus\n\nTämän vakuutan.\n"


def test_a_language_is_one_table(with_finnish_oath: None) -> None:
    assert [DECLARATION[slice(*span)] for span in find_declarations(DECLARATION)] == ["Vakuutus\n\nTämän vakuutan."]


def test_a_heading_that_no_table_has_is_none() -> None:
    assert not find_declarations(DECLARATION)
