"""Count about how many tokens a run computes for an input, and what its texts look like, before it starts.

Characters are counted of all texts. Tokens are counted of some texts, evenly spread over the input.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import detect_task
from pan_scdg.pan.source_retrieval import Corpus, read_queries
from pan_scdg.pan.text_alignment import read_pairs, read_text
from pan_scdg.profile import Profile
from pan_scdg.records import Document, TextFile
from pan_scdg.retrieval.dense import Kind, cut_document
from pan_scdg.retrieval.ranking import DEPTH
from pan_scdg.retrieval.units import cut_query, extract_title_abstract, split_query
from pan_scdg.scdg.sequences import Tokenizer, encode_text
from pan_scdg.settings import RetrievalSettings, Route

Item = TypeVar("Item")
TOKENISED_TEXTS = 50
"""Texts whose tokens are counted."""
CUT_DOCUMENTS = 1000
"""Documents of a corpus that are cut as for the encoder."""


class Scoring(NamedTuple):
    """The work of the language model."""

    tokens: int
    """Of all inputs; a source that several queries share counts once."""
    source: int
    """Tokens of a usual source."""
    target: int
    """Tokens of a usual target."""
    targets: int
    """Targets that share a usual source."""


class Encoding(NamedTuple):
    """The work of the encoder."""

    tokens: int
    vectors: int
    """Vectors that an index keeps."""
    characters: int
    """Of the corpus."""
    texts: list[str]
    """Some of the texts that are encoded, evenly spread."""


def count_scoring(profile: Profile, directory: Path, tokenizer: Tokenizer) -> Scoring:
    """Return what the language model of a profile computes for an input.

    A pair costs its source and its target, and a target alone once; a candidate costs its query, and a query alone
    once. A source is computed once for all its queries, one that exceeds the context once for each, as its windows
    differ; each document is assumed to be a candidate of a query as likely as any other.
    """
    if detect_task(directory) == "pairs":
        pairs = _list_pairs(directory)
        targets, sources = (list(dict.fromkeys(files)) for files in zip(*pairs, strict=True))
        texts = {file: read_text(file) for file in _spread([*targets, *sources], TOKENISED_TEXTS)}
        rate = _measure_rate(tokenizer, list(texts.values()))
        files = {file: rate * len(texts.get(file) or read_text(file)) for file in (*targets, *sources)}
        both = math.fsum(files[target] + files[source] for target, source in pairs)
        alone, given = (math.fsum(files[file] for file in side) for side in (targets, sources))
        return Scoring(round(both + alone), round(given / len(sources)), round(alone / len(targets)), 1)
    settings, corpus = profile.need_retrieval(), Corpus(directory, Notices(), profile.raw_text)
    queries = _read_query_texts(profile, directory)
    step, sizes, sample = -(-len(corpus) // TOKENISED_TEXTS), list[int](), list[str]()
    for number, document in enumerate(corpus):
        sizes.append(len(document.text))
        if number % step == 0:
            sample.append(document.text)
    rate = _measure_rate(tokenizer, sample)
    target = _measure_rate(tokenizer, _spread(queries, TOKENISED_TEXTS)) * sum(map(len, queries)) / len(queries)
    candidates = min(settings.scored or DEPTH, DEPTH, len(corpus))
    uses = candidates * len(queries) / len(corpus)
    used = 1 - (1 - candidates / len(corpus)) ** len(queries)  # share of the sources with a query or more
    budget = min(settings.source_tokens or math.inf, max(1.0, settings.context - target))
    lengths = [rate * size for size in sizes]
    computed = math.fsum(min(n, budget) * (uses if n > budget else used) for n in lengths)
    source = math.fsum(min(n, budget) for n in lengths) / len(lengths)
    tokens = computed + (candidates + 1) * target * len(queries)
    return Scoring(round(tokens), round(source), round(target), round(uses / used))


def count_encoding(profile: Profile, directory: Path, tokenizer: Tokenizer, max_tokens: int) -> Encoding:
    """Return what the encoder of a profile computes for an input: both texts of a pair, or an index and its queries.

    Args:
        profile: the submission's.
        directory: the input.
        tokenizer: of the encoder.
        max_tokens: where the encoder cuts a text.
    """
    if detect_task(directory) == "pairs":
        files = list(dict.fromkeys(chain(*_list_pairs(directory))))
        texts = [read_text(file) for file in _spread(files, TOKENISED_TEXTS)]
        characters = sum(len(read_text(file)) for file in files)
        return Encoding(round(_measure_rate(tokenizer, texts) * characters), 0, characters, texts)
    settings, corpus = profile.need_retrieval(), Corpus(directory, Notices(), profile.raw_text)
    queries = _read_query_texts(profile, directory)
    step, characters, whole, cut = -(-len(corpus) // CUT_DOCUMENTS), 0, list[str](), list[str]()
    for number, document in enumerate(corpus):
        characters += len(document.text)
        if number % step == 0:
            whole.append(document.text)
            cut += _cut_document(document, settings)
    share = len(corpus) / len(whole)
    texts = _spread(cut or whole, TOKENISED_TEXTS)
    limit = settings.dense.document_tokens if settings.dense and settings.dense.document_tokens else max_tokens
    rate = _measure_rate(tokenizer, texts)
    tokens = share * math.fsum(min(rate * len(text), limit) for text in cut)
    tokens += math.fsum(rate * len(text) for query in queries for text in _list_query_texts(query, settings.routes))
    if settings.match is not None:  # the sentences of the candidates
        tokens += rate * characters * min(1.0, (settings.scored or DEPTH) * len(queries) / len(corpus))
    return Encoding(round(tokens), round(share * len(cut)), characters, texts)


def read_some_pairs(profile: Profile, directory: Path, count: int) -> list[tuple[str, str]]:
    """Return the first pairs of an input, target and source: queries with any documents where sources are searched."""
    if detect_task(directory) == "pairs":
        return [(read_text(target), read_text(source)) for target, source in _list_pairs(directory)[:count]]
    documents = Corpus(directory, Notices(), profile.raw_text)
    queries = _read_query_texts(profile, directory)
    return [(query, document.text) for query, document in islice(zip(queries, documents), count)]


def _cut_document(document: Document, settings: RetrievalSettings) -> list[str]:
    """Return the texts of a document that the vectors of the routes are made of."""
    if settings.dense is None:
        return []
    kinds: dict[str, Kind] = {"dense": "chunks", "abstract": "abstracts"}
    used = dict.fromkeys(kind for route in settings.routes for name, kind in kinds.items() if route.startswith(name))
    return [text for kind in used for text in cut_document(document, kind, settings.dense)]


def _list_query_texts(text: str, routes: Sequence[Route]) -> Iterator[str]:
    """Yield the texts of a query that the routes search with."""
    for route in routes:
        if route == "abstract":
            yield extract_title_abstract(text)
        elif route == "dense-sentence":
            yield from split_query(text)
        elif route == "dense-full":
            yield from cut_query(text)


def _read_query_texts(profile: Profile, directory: Path) -> list[str]:
    """Return the texts of all queries; equal ones are computed once."""
    return list(dict.fromkeys(query.text for query in read_queries(directory, Notices(), profile.raw_text)))


def _list_pairs(directory: Path) -> list[tuple[TextFile, TextFile]]:
    """Return the target and the source of each pair."""
    return [(pair.suspicious, pair.source) for pair in read_pairs(directory, Notices()).pairs]


def _spread(items: Sequence[Item], count: int) -> list[Item]:
    """Return at most ``count`` items, evenly spread."""
    return list(items[:: -(-len(items) // count)]) if items else []


def _measure_rate(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """Return the tokens a character."""
    return sum(len(encode_text(tokenizer, text)) for text in texts) / max(1, sum(map(len, texts)))
