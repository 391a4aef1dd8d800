"""Write a corpus with the shape of PAN 2026: ``python -m benchmarks.corpus --output DIR [--documents N --queries M]``.

Texts are sentences of invented words whose statistics are those of papers: frequencies after Zipf over 300,000 word
forms (English function words, inflected words, names, numbers), lengths log-normal with a mean of about 6,000 words,
words of a topic that recur in their document. A query is put together from altered sentences of two to five documents
and sentences of its own. Document ``i`` depends on the seed and ``i`` alone, so a smaller corpus is the beginning of a
larger one, and texts are made as they are asked for.
"""

import gzip
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple

import click
import numpy as np
import numpy.typing as npt

from pan_scdg.records import Document, Query

DOCUMENTS = 86_822
"""Papers in the corpus of PAN 2026."""
MOST_DOCUMENTS = 1_000_000
FORMS = 300_000
SLOTS = 1 << 22
MEAN_WORDS, SIGMA, LONGEST = 6000, 0.6, 60_000
SENTENCE_WORDS = (8, 37)
"""Shortest and longest sentence, in words; all lengths between are equally likely."""
SENTENCES_A_PARAGRAPH = 6
TOPIC_WORDS, TOPIC_SHARE = 128, 0.25
QUERY_SENTENCES, ALTERED = 150, 0.25
SECTIONS = ("Introduction", "Related work", "Data", "Methods", "Experiments", "Results", "Discussion", "Conclusion")
FUNCTION_WORDS = """the of and in to a is for that we with as by on are this be from which an at or it can not have has
these our was were also between more where one such then than if two but only they their when each other its all no some
will using used been over first both may most so there through any same under into however since about given thus while
case time order small large number system value result show model function field different new high low three after"""
# The last marks stand in for a word at the end of a sentence: full stop, end of a paragraph, and the next heading.
_MARKS = (".", ".\n\n", *(f".\n\n{name}\n" for name in SECTIONS))
_STOP, _PARAGRAPH, _SECTION = range(2 * FORMS, 2 * FORMS + 3)
_TITLE, _DOCUMENT, _QUERY = range(3)
_SYLLABLES = [consonant + vowel for consonant in "bcdfghklmprstvz" for vowel in "aeiou"]
_ENDINGS = ("", "s", "ned", "ning", "ly")

Ids = npt.NDArray[np.int64]


class _Vocabulary(NamedTuple):
    """``strings``: every form, every form with a capital letter, the marks. ``slots``: the form that a draw means."""

    strings: npt.NDArray[np.object_]
    slots: npt.NDArray[np.int32]


def document_id(index: int) -> str:
    """Id of a document; the order of the ids is not that of the corpus."""
    number = index * 618_033 % MOST_DOCUMENTS  # no common factor with the modulus: all differ
    return f"{number // 1000:04}.{number % 1000:05}"


def document(index: int, seed: int = 0) -> Document:
    """The text of one document: title, abstract, eight sections of paragraphs."""
    rng = np.random.default_rng([seed, _DOCUMENT, index])
    ids = _sentences(rng, _topic(rng), _length(rng))
    return Document(document_id(index), f"{_title(index, seed)}\n\nAbstract\n{_text(_with_sections(ids))}")


def generate(documents: int = DOCUMENTS, seed: int = 0) -> Iterator[Document]:
    """The documents of a corpus, one at a time.

    Raises:
        ValueError: there are more documents than ids.
    """
    if documents > MOST_DOCUMENTS:
        raise ValueError(f"at most {MOST_DOCUMENTS} documents, not {documents}")
    for index in range(documents):
        yield document(index, seed)


def sources(number: int, documents: int = DOCUMENTS, seed: int = 0) -> list[int]:
    """Indices of the two to five documents (fewer in a smaller corpus) that query ``number`` draws on."""
    rng = np.random.default_rng([seed, _QUERY, number])
    return _sources(rng, documents)


def queries(count: int, documents: int = DOCUMENTS, seed: int = 0) -> list[Query]:
    """Suspicious documents in Markdown, about 150 sentences each."""
    return [_query(number, documents, seed) for number in range(count)]


def _query(number: int, documents: int, seed: int) -> Query:
    rng = np.random.default_rng([seed, _QUERY, number])
    taken = _sources(rng, documents)
    parts = [_altered(rng, index, seed, QUERY_SENTENCES // (2 * len(taken))) for index in taken]
    # What is taken and what is the query's own alternate, and the first words are its own.
    topic = _topic(rng)
    own = QUERY_SENTENCES - sum(len(_starts(part)) for part in parts)
    pieces = [_sentences(rng, topic, 23 * own // (len(parts) + 1)) for _ in range(len(parts) + 1)]
    mixed = [pieces[0]] + [part for pair in zip(parts, pieces[1:]) for part in pair]
    text = _text(_with_sections(np.concatenate(mixed))).replace("\n\n", "\n\n## ")
    lines = [line if line[3:] in SECTIONS else line.removeprefix("## ") for line in text.split("\n")]
    body = "\n".join(f"{line}\n" if line[3:] in SECTIONS else line for line in lines)
    return Query(f"q{number:05}", f"# {_title(number, seed, _QUERY)}\n\n## Abstract\n\n{body}")


def _sources(rng: np.random.Generator, documents: int) -> list[int]:
    count = min(documents, int(rng.integers(2, 6)))
    found: list[int] = []
    while len(found) < count:
        index = int(rng.integers(documents))
        found += [index] if index not in found else []
    return found


def _altered(rng: np.random.Generator, index: int, seed: int, count: int) -> Ids:
    """``count`` sentences from within a document, every fourth word replaced, as a paraphrase would."""
    source = np.random.default_rng([seed, _DOCUMENT, index])
    ids = _sentences(source, _topic(source), _length(source))
    starts = _starts(ids)
    first = int(rng.integers(max(1, len(starts) - count)))
    ids = ids[starts[first] : starts[first + count] if first + count < len(starts) else len(ids)].copy()
    changed = (ids < FORMS) & (rng.random(len(ids)) < ALTERED)
    ids[changed] = _draw(rng, int(changed.sum()))
    return ids


def _sentences(rng: np.random.Generator, topic: Ids, words: int) -> Ids:
    """Sentences of about ``words`` words as positions in ``strings``: capital letter, words, full stop."""
    low, high = SENTENCE_WORDS
    lengths = rng.integers(low, high + 1, size=max(1, round(words * 2 / (low + high))))
    ends = np.cumsum(lengths + 1) - 1
    ids = _draw(rng, int(ends[-1]) + 1)
    topical = np.flatnonzero(rng.random(len(ids)) < TOPIC_SHARE)
    ids[topical] = topic[rng.integers(len(topic), size=len(topical))]
    ids[ends] = _STOP
    ids[ends - lengths] += FORMS
    return ids


def _with_sections(ids: Ids) -> Ids:
    """The same sentences in paragraphs, with the headings of sections between some of them."""
    ids = ids.copy()
    ends = np.flatnonzero(ids == _STOP)
    ids[ends[SENTENCES_A_PARAGRAPH - 1 : -1 : SENTENCES_A_PARAGRAPH]] = _PARAGRAPH
    breaks = np.flatnonzero(ids == _PARAGRAPH)[:: max(1, -(-len(ends) // (SENTENCES_A_PARAGRAPH * len(SECTIONS))))]
    ids[breaks[: len(SECTIONS)]] = _SECTION + np.arange(min(len(breaks), len(SECTIONS)))
    return ids


def _text(ids: Ids) -> str:
    return " ".join(_vocabulary().strings[ids].tolist()).replace(" .", ".").replace("\n ", "\n")


def _title(index: int, seed: int, kind: int = _TITLE) -> str:
    rng = np.random.default_rng([seed, _TITLE, kind, index])
    return " ".join(_vocabulary().strings[_draw(rng, int(rng.integers(6, 14)))].tolist()).capitalize()


def _starts(ids: Ids) -> Ids:
    """Return the places at which sentences begin."""
    return np.concatenate([[0], np.flatnonzero(ids == _STOP)[:-1] + 1])


def _length(rng: np.random.Generator) -> int:
    words = np.exp(np.log(MEAN_WORDS) - SIGMA**2 / 2 + SIGMA * rng.standard_normal())
    return int(np.clip(words, 200, LONGEST))


def _topic(rng: np.random.Generator) -> Ids:
    """Forms that recur in one document: rare ones, as the words of a subject are."""
    return _draw(rng, 4 * TOPIC_WORDS, rarest=TOPIC_WORDS)


def _draw(rng: np.random.Generator, count: int, rarest: int | None = None) -> Ids:
    """``count`` forms drawn after Zipf; of these only the ``rarest`` if that is given."""
    ids = _vocabulary().slots[rng.integers(SLOTS, size=count, dtype=np.uint32)].astype(np.int64)
    return ids if rarest is None else np.sort(ids)[-rarest:]


@lru_cache(maxsize=1)
def _vocabulary() -> _Vocabulary:
    common = FUNCTION_WORDS.split()
    forms = common + [_form(number) for number in range(FORMS - len(common))]
    strings = np.array([*forms, *(form[0].upper() + form[1:] for form in forms), *_MARKS], dtype=np.object_)
    # Form r has a share of the slots that falls with 1 / r (Zipf); a draw is then one look-up at a uniform place.
    shares = np.cumsum(1 / np.arange(1, FORMS + 1))
    bounds = np.rint(shares / shares[-1] * SLOTS).astype(np.int64)
    slots = np.repeat(np.arange(FORMS, dtype=np.int32), np.diff(bounds, prepend=0))
    return _Vocabulary(strings, slots)


def _form(number: int) -> str:
    """An invented word in one of five inflections; every 16th is a name, every 32nd a number."""
    # Neighbours in frequency should not be inflections of one word, hence the multiplication (no common factor).
    lemma, ending = divmod(number * 7919 % (10 * FORMS), 10)
    if number % 32 == 3:
        return str(number // 32) if number % 64 == 3 else f"{number // 3200}.{number // 32 % 100:02}"
    word = _SYLLABLES[lemma % 75] + _SYLLABLES[lemma // 75 % 75]
    word += _SYLLABLES[lemma // 5625] if lemma >= 5625 else ""
    if number % 16 == 7:
        return word.replace("e", "é", 1).replace("o", "ø", 1).capitalize()
    return word + _ENDINGS[ending % 5]


def write(directory: Path, documents: int, count: int, seed: int) -> None:
    """Write ``corpus.jsonl.gz``, ``queries.jsonl`` and ``qrels.txt`` with ``count`` queries."""
    directory.mkdir(parents=True, exist_ok=True)
    # Without a time in the gzip header equal corpora are equal files.
    with (
        open(directory / "corpus.jsonl.gz", "wb") as raw,
        gzip.GzipFile("", "wb", 1, raw, mtime=0) as file,
    ):
        for found in generate(documents, seed):
            _write_line(file, {"doc_id": found.doc_id, "default_text": found.text})
    with open(directory / "queries.jsonl", "wb") as file:
        for query in queries(count, documents, seed):
            _write_line(file, {"qid": query.query_id, "query": query.text})
    judged = [
        f"q{number:05} 0 {document_id(i)} 1\n" for number in range(count) for i in sources(number, documents, seed)
    ]
    (directory / "qrels.txt").write_text("".join(judged), encoding="utf-8")


def _write_line(file: IO[bytes] | gzip.GzipFile, record: dict[str, Any]) -> None:
    file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")


@click.command(help=__doc__)
@click.option("--documents", default=DOCUMENTS, show_default=True, type=click.IntRange(1, MOST_DOCUMENTS))
@click.option("--queries", "count", default=100, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option("--output", required=True, type=click.Path(path_type=Path, file_okay=False))
def main(documents: int, count: int, seed: int, output: Path) -> None:
    write(output, documents, count, seed)


if __name__ == "__main__":
    main()
