"""Format the detection XML of a pair."""

from collections.abc import Sequence

from pan_scdg.records import DocumentPair, Passage

DETECTED = "detected-plagiarism"
"""The name of a feature of a system; that of the truth is `truth.TAG`."""


def format_detection(pair: DocumentPair, passages: Sequence[Passage], name: str = DETECTED) -> bytes:
    """Return the detection file of one pair: one feature per passage, whose ``name`` is ``plagiarism`` in truth files.

    Raises:
        ValueError: a negative offset or a length below 1, with which the official evaluator counts wrongly or stops.
    """
    from lxml import etree

    root = etree.Element("document", {"reference": pair.suspicious.reference})
    for p in passages:
        if min(p.target.begin, p.source.begin) < 0 or min(p.target.length, p.source.length) < 1:
            raise ValueError(f"{p} has a negative offset or no characters")
        attributes = {
            "name": name,
            "this_offset": str(int(p.target.begin)),
            "this_length": str(int(p.target.length)),
            "source_reference": pair.source.reference,
            "source_offset": str(int(p.source.begin)),
            "source_length": str(int(p.source.length)),
        }
        etree.SubElement(root, "feature", attributes)
    xml: bytes = etree.tostring(root, xml_declaration=True, encoding="utf-8", pretty_print=True)
    return xml
