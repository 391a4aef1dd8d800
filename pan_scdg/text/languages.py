"""Read the words of languages by which parts of a text are recognised; a language is a table of `languages.toml`."""

import re
from functools import cache
from pathlib import Path
from typing import Literal

FILE = Path(__file__).with_name("languages.toml")
Kind = Literal["references", "contents", "declarations", "first_person", "announcements", "captions", "function_words"]


@cache
def list_words(kind: Kind) -> tuple[str, ...]:
    """Return the words, or patterns of words, of one kind in all languages."""
    entries = (table.get(kind, "") for table in _read_tables())
    return tuple(word for words in entries for word in (words.split() if isinstance(words, str) else words))


@cache
def compile_words(kind: Kind, template: str) -> re.Pattern[str]:
    """Return a pattern in which ``{}`` of the template stands for a word of one kind."""
    return re.compile(template.replace("{}", f"(?:{'|'.join(list_words(kind))})"))


@cache
def _read_tables() -> tuple[dict[str, str | list[str]], ...]:
    import tomlkit

    return tuple(tomlkit.parse(FILE.read_text(encoding="utf-8")).unwrap().values())
