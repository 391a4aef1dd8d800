"""Passages and features from offsets and lengths, as the official formats have them."""

from pan_scdg.records import Feature, Passage, Span


def make_passage(offset: int, length: int, source_offset: int, source_length: int, obfuscation: str = "") -> Passage:
    return Passage(Span(offset, offset + length), Span(source_offset, source_offset + source_length), obfuscation)


def make_feature(
    suspicious: str, offset: int, length: int, source: str | None, source_offset: int, source_length: int
) -> Feature:
    span = Span(source_offset, source_offset + source_length)
    return Feature(suspicious, Span(offset, offset + length), source, span)
