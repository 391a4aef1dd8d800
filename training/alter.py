"""Altered copies of a passage, for teaching a language model to copy with changes.

A copy keeps the meaning roughly: sentences move in blocks or go missing, words give way to WordNet synonyms, clauses
around a comma change places. Every change is drawn from the generator that the caller passes.
"""

import json
import lzma
import random
import re
from pathlib import Path

SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z(\"'])")
WORD = re.compile(r"[A-Za-z]{4,}")
SUFFIXES = ("ing", "ies", "es", "ed", "s")


def load_thesaurus(path: Path) -> dict[str, list[str]]:
    """Lemma -> single-word lower-case synonyms, the first four of each entry (WordNet order: frequent senses first)."""
    table: dict[str, list[str]] = {}
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            words = [w for w in entry["synonyms"] if w.isalpha() and w.islower() and len(w) > 2][:4]
            if words and entry["word"].isalpha():
                known = table.setdefault(entry["word"].lower(), [])
                known.extend(w for w in words if w not in known)
    return table


def synonym(word: str, table: dict[str, list[str]], rng: random.Random) -> str:
    """A synonym in the form of ``word`` (its ending and capital), or the word itself where the table has none."""
    lower = word.lower()
    for ending in ("", *SUFFIXES):
        if not lower.endswith(ending):
            continue
        stem = lower[: len(lower) - len(ending)]
        for lemma in (stem, stem + "e") if ending in ("ing", "ed", "es") else (stem,):
            if lemma in table:
                other = rng.choice(table[lemma][:6])
                if ending in ("ing", "ed") and other.endswith("e"):
                    other = other[:-1]
                result = other + ending
                return result.capitalize() if word[0].isupper() else result
    return word


def swap_clauses(sentence: str) -> str:
    """``A, b.`` -> ``B, a.``: the parts around the first comma change places."""
    head, comma, tail = sentence.rstrip(".").partition(", ")
    if not comma or len(head) < 15 or len(tail) < 15:
        return sentence
    return f"{tail[0].upper()}{tail[1:]}, {head[0].lower()}{head[1:]}."


def alter(text: str, strength: float, table: dict[str, list[str]], rng: random.Random) -> str:
    """A copy of ``text`` altered with ``strength`` in [0, 1]; 0 returns it with white space joined."""
    sentences = [s for s in SENTENCE.split(" ".join(text.split())) if s]
    if len(sentences) > 2 and rng.random() < strength:
        size = rng.randint(1, 3)
        blocks = [sentences[i : i + size] for i in range(0, len(sentences), size)]
        rng.shuffle(blocks)
        sentences = [s for block in blocks for s in block]
    kept = [s for s in sentences if rng.random() > 0.2 * strength] or sentences
    kept = [swap_clauses(s) if rng.random() < 0.4 * strength else s for s in kept]
    share = 0.6 * strength
    return WORD.sub(lambda m: synonym(m[0], table, rng) if rng.random() < share else m[0], " ".join(kept))
