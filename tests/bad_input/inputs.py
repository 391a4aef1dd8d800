"""Good inputs, of which a row of the table changes something, and the row itself."""

import gzip
import io
import json
import zipfile
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

Files = Mapping[str, str | bytes | None]
"""What lies below the working directory, by relative name; None takes a file of the good input away."""

TEXT = "The samples held salt. Nobody on the quay said a word about it, and the river forgot its bed.\n"
PAIRS = {
    "pairs": "s1.txt r1.txt\ns2.txt r2.txt\ns3.txt r3.txt\n",
    **{f"susp/s{i}.txt": f"Suspicious {i}. {TEXT}" for i in (1, 2, 3)},
    **{f"src/r{i}.txt": f"Source {i}. {TEXT}" for i in (1, 2, 3)},
}
FEATURE = (
    '<feature name="plagiarism" this_offset="0" this_length="9" '
    'source_reference="r{i}.txt" source_offset="0" source_length="9"/>'
)
TRUTH = {
    f"truth/s{i}-r{i}.xml": f'<document reference="s{i}.txt">\n{FEATURE.format(i=i) if i < 3 else ""}\n</document>\n'
    for i in (1, 2, 3)
}


def lines(*records: object) -> str:
    return "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records)


DOCUMENTS = [{"doc_id": f"d/{i}", "default_text": f"Document {i}. {TEXT}"} for i in range(1, 5)]
QUERIES = [{"qid": f"q{i}", "query": f"Query {i}. {TEXT}"} for i in range(1, 4)]
RETRIEVAL = {"corpus.jsonl": lines(*DOCUMENTS), "queries.jsonl": lines(*QUERIES)}
BLANKS = gzip.compress(b" " * ((10 << 20) - 1) + b"\n")
ESCAPE = "\x1b]0;owned\x07"


class Bad(NamedTuple):
    """An input that is refused."""

    files: Files
    """What lies in the input directory."""
    says: str
    """The start (a pattern) of what is said below the input directory, of the whole text if it begins with ``^``."""
    command: str = "run"
    """A command that takes an input, or with ``{input}``, ``{output}``, ``{model}`` and ``{profile}`` all of a line."""
    more: tuple[str, ...] = ()
    lines: int = 1
    code: int = 2
    output: Files = MappingProxyType({})
    """What lies in the output directory before; afterwards the same and nothing else that is visible."""


def corpus(*records: object) -> Files:
    return RETRIEVAL | {"corpus.jsonl": lines(*records)}


def queries(*records: object) -> Files:
    return RETRIEVAL | {"queries.jsonl": lines(*records)}


def truth(text: str) -> Files:
    return PAIRS | TRUTH | {"truth/s2-r2.xml": text}


def results(folder: str) -> Files:
    """Detections that name every pair, as if the output of a run lay in the input."""
    return {name.replace("truth", folder): text.replace('"plag', '"detected-plag') for name, text in TRUTH.items()}


def archive_of(*names: str) -> bytes:
    """An archive that begins as those of word processors do."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr(name, "application/vnd.oasis.opendocument.text" if name == "mimetype" else "<xml/>")
    return packed.getvalue()


PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n"
DOCX = r"/susp/s2.txt: this is a Word document \(DOCX\), not a text file; export it as plain text in UTF-8"
ODT = r"/susp/s2.txt: this is an OpenDocument text \(ODT\), not a text file; export it"
DOCTYPE = (
    '<?xml version="1.0"?>\n<!DOCTYPE d [<!ENTITY a SYSTEM "file:///etc/hostname">]>\n<document reference="&a;"/>\n'
)
