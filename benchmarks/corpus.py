"""Write a corpus of the shape of PAN 2026: ``python -m benchmarks.corpus --output DIR [--documents N --queries M]``.

Texts are sentences of invented words whose statistics are those of papers: frequencies after Zipf over 300,000 word
forms (English function words, inflected words, names, numbers), lengths log-normal with a mean of about 6,000 words,
words of a topic that recur in their document. A query is put together from altered sentences of two to five documents
and sentences of its own. Document ``i`` depends on ``i`` alone, so a smaller corpus is the beginning of a larger one.
"""

import gzip
import json
from functools import lru_cache
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt

DOCUMENTS = 86_822
"""Papers in the corpus of PAN 2026."""
MAX_DOCUMENTS = 1_000_000
FORMS, SLOTS = 300_000, 1 << 22
MEAN_WORDS, SIGMA, MAX_WORDS = 6000, 0.6, 60_000
SENTENCE_WORDS = (8, 37)
"""Shortest and longest sentence; all lengths between are equally likely."""
PARAGRAPH_SENTENCES = 6
TOPIC_WORDS, TOPIC_SHARE = 128, 0.25
QUERY_SENTENCES, ALTERED = 150, 0.25
FUNCTION_WORDS = """the of and in to a is for that we with as by on are this be from which an at or it can not have has
these our was were also between more where one such then than if two but only they their when each other its all no some
will using used been over first both may most so there through any same under into however since about given thus while
case time order small large number system value result show model function field different new high low three after"""
STOP, PARAGRAPH = 2 * FORMS, 2 * FORMS + 1
"""Marks in place of a word, at the end of a sentence."""
DOCUMENT, QUERY, PAPER = range(3)
SYLLABLES = [consonant + vowel for consonant in "bcdfghklmprstvz" for vowel in "aeiou"]
ENDINGS = ("", "s", "ned", "ning", "ly")
Ids = npt.NDArray[np.int64]


def make_document_id(index: int) -> str:
    """Return the id of a document; the order of the ids is not that of the corpus."""
    number = index * 618_033 % MAX_DOCUMENTS  # no common factor with the modulus: all differ
    return f"{number // 1000:04}.{number % 1000:05}"


def make_document(index: int) -> str:
    """Return the text of a document."""
    return _join(_draw_document(index))


def make_paper(number: int, words: int) -> str:
    """Return a text of about so many words on a topic of its own, none of which is in the corpus."""
    rng = np.random.default_rng([PAPER, number])
    return _join(_draw_sentences(rng, _draw_topic(rng), round(words * 2 / sum(SENTENCE_WORDS))))


def draw_sources(number: int, documents: int) -> list[int]:
    """Return the two to five documents (fewer in a smaller corpus) that a query draws on."""
    rng = np.random.default_rng([QUERY, number])
    return [int(i) for i in rng.choice(documents, min(documents, int(rng.integers(2, 6))), replace=False)]


def make_query(number: int, documents: int) -> str:
    """Return a suspicious document of about 150 sentences, half of them altered sentences of its sources."""
    rng, sources = np.random.default_rng([QUERY, number, 1]), draw_sources(number, documents)
    topic = _draw_topic(rng)
    parts = []
    for index in sources:
        count = QUERY_SENTENCES // (2 * len(sources))
        parts += [_draw_sentences(rng, topic, count), _alter(rng, _draw_document(index), count)]
    return _join(np.concatenate(parts))


def _alter(rng: np.random.Generator, ids: Ids, count: int) -> Ids:
    """Return ``count`` sentences from within a document, every fourth word replaced."""
    ends = np.flatnonzero(ids >= STOP)
    first = int(rng.integers(max(1, len(ends) - count)))
    ids = ids[ends[first] + 1 : ends[min(first + count, len(ends) - 1)] + 1].copy()
    changed = (ids < FORMS) & (rng.random(len(ids)) < ALTERED)
    ids[changed] = _draw(rng, int(changed.sum()))
    return ids


def _draw_document(index: int) -> Ids:
    rng = np.random.default_rng([DOCUMENT, index])
    words = np.exp(np.log(MEAN_WORDS) - SIGMA**2 / 2 + SIGMA * rng.standard_normal())
    count = round(float(np.clip(words, 200, MAX_WORDS)) * 2 / sum(SENTENCE_WORDS))
    return _draw_sentences(rng, _draw_topic(rng), count)


def _draw_sentences(rng: np.random.Generator, topic: Ids, count: int) -> Ids:
    """Return sentences as numbers of forms: the first one capitalised, the last one a mark."""
    lengths = rng.integers(SENTENCE_WORDS[0], SENTENCE_WORDS[1] + 1, size=max(1, count))
    ends = np.cumsum(lengths + 1) - 1
    ids = _draw(rng, int(ends[-1]) + 1)
    topical = np.flatnonzero(rng.random(len(ids)) < TOPIC_SHARE)
    ids[topical] = topic[rng.integers(len(topic), size=len(topical))]
    ids[ends - lengths] += FORMS
    ids[ends] = STOP
    ids[ends[PARAGRAPH_SENTENCES - 1 :: PARAGRAPH_SENTENCES]] = PARAGRAPH
    return ids


def _draw_topic(rng: np.random.Generator) -> Ids:
    """Return the rarest of some drawn forms, as the words of a subject are."""
    return np.sort(_draw(rng, 4 * TOPIC_WORDS))[-TOPIC_WORDS:]


def _draw(rng: np.random.Generator, count: int) -> Ids:
    """Return forms drawn after Zipf: form r has a share of the slots that falls with 1 / r."""
    return _make_vocabulary()[1][rng.integers(SLOTS, size=count, dtype=np.uint32)].astype(np.int64)


def _join(ids: Ids) -> str:
    text = " ".join(_make_vocabulary()[0][ids].tolist())
    return text.replace(" .", ".").replace("\n ", "\n").rstrip()


@lru_cache(maxsize=1)
def _make_vocabulary() -> tuple[npt.NDArray[np.object_], npt.NDArray[np.int32]]:
    """Return every form, every form with a capital letter and the marks, and the form that each slot means."""
    common = FUNCTION_WORDS.split()
    forms = common + [_make_form(number) for number in range(FORMS - len(common))]
    capitals = (form[0].upper() + form[1:] for form in forms)
    shares = np.cumsum(1 / np.arange(1, FORMS + 1))
    bounds = np.rint(shares / shares[-1] * SLOTS).astype(np.int64)
    slots = np.repeat(np.arange(FORMS, dtype=np.int32), np.diff(bounds, prepend=0))
    return np.array([*forms, *capitals, ".", ".\n\n"], dtype=np.object_), slots


def _make_form(number: int) -> str:
    """Return an invented word in one of five inflections; every 16th is a name, every 32nd a number."""
    # Neighbours in frequency should not be inflections of one word, hence the multiplication (no common factor).
    lemma, ending = divmod(number * 7919 % (10 * FORMS), 10)
    if number % 32 == 3:
        return str(number // 32) if number % 64 == 3 else f"{number // 3200}.{number // 32 % 100:02}"
    word = SYLLABLES[lemma % 75] + SYLLABLES[lemma // 75 % 75]
    word += SYLLABLES[lemma // 5625] if lemma >= 5625 else ""
    if number % 16 == 7:
        return word.replace("e", "é", 1).replace("o", "ø", 1).capitalize()
    return word + ENDINGS[ending % 5]


def write_corpus(folder: Path, documents: int, count: int) -> None:
    """Write ``corpus.jsonl.gz``, ``queries.jsonl`` and ``qrels.txt`` with ``count`` queries."""
    folder.mkdir(parents=True, exist_ok=True)
    # Without a time in the gzip header equal corpora are equal files.
    with open(folder / "corpus.jsonl.gz", "wb") as raw, gzip.GzipFile("", "wb", 1, raw, mtime=0) as file:
        for index in range(documents):
            record = {"doc_id": make_document_id(index), "default_text": make_document(index)}
            file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
    with open(folder / "queries.jsonl", "w", encoding="utf-8") as lines, open(folder / "qrels.txt", "w") as judged:
        for number in range(count):
            record = {"qid": f"q{number:05}", "query": make_query(number, documents)}
            lines.write(json.dumps(record, ensure_ascii=False) + "\n")
            judged.writelines(f"q{number:05} 0 {make_document_id(i)} 1\n" for i in draw_sources(number, documents))


@click.command(help=__doc__)
@click.option("--documents", default=DOCUMENTS, show_default=True, type=click.IntRange(1, MAX_DOCUMENTS))
@click.option("--queries", "count", default=100, show_default=True, type=click.IntRange(1))
@click.option("--output", required=True, type=click.Path(path_type=Path, file_okay=False))
def main(documents: int, count: int, output: Path) -> None:
    write_corpus(output, documents, count)


if __name__ == "__main__":
    main()
