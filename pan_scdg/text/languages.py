"""Read the words of languages by which parts of a text are recognised; a language is a table of `languages.toml`."""

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

FILE = Path(__file__).with_name("languages.toml")
Kind = Literal["references", "contents", "declarations", "first_person", "announcements", "captions", "function_words"]
_WORD = re.compile(r"[^\W\d_]+")
_FREQUENT_WORDS = """
the of and to in a is that was it for on with as be at by this are from or have an not which were they their but has had
his her its we you can all one there been if more when who will would so what about into than them these
"""
FREQUENT_WORDS = frozenset(_FREQUENT_WORDS.split())
"""Words of every English text, about two of five; of other languages that share some, at most one of eight."""
MIN_ENGLISH_SHARE, MIN_ENGLISH_WORDS = 0.2, 20
"""Least share of frequent words in an English text, and the least words for which it is measured."""


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


@lru_cache(64)
def seems_english(text: str) -> bool:
    """Return True if enough words of a text are frequent English words; also if it is very short, or letters apart."""
    words = _WORD.findall(text.lower())
    if 2 * sum(len(word) == 1 for word in words) > len(words):
        return True
    frequent = sum(word in FREQUENT_WORDS for word in words)
    return len(words) < MIN_ENGLISH_WORDS or frequent >= MIN_ENGLISH_SHARE * len(words)
