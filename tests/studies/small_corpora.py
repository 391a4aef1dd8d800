"""Small manifests and corpora for the tests of the studies."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from studies.data.pair_manifest import PairRecord

TRUTH = '<document reference="{0}">{1}</document>'
REUSE = (
    '<feature name="{kind}" obfuscation="{obfuscation}" this_offset="{0}" this_length="{1}" source_reference="{source}"'
    ' source_offset="{2}" source_length="{3}"/>'
)


def feature(
    source: str, spans: Sequence[int] = (0, 40, 5, 45), kind: str = "plagiarism", obfuscation: str = "simple"
) -> str:
    """An XML feature; ``spans`` are offset and length in the suspicious text, then in the source."""
    return REUSE.format(*spans, kind=kind, obfuscation=obfuscation, source=source)


def record(susp: str, src: str, label: int = 1) -> PairRecord:
    """A record of a manifest whose counts do not matter."""
    annotations = ({"this_offset": 0, "this_length": 5, "source_offset": 1, "source_length": 5},) * label
    name, label = f"{susp}-{src}", int(label)
    return PairRecord(name, f"{susp}.txt", f"{src}.txt", f"{name}.xml", True, label, label, annotations, 10, 20, 30)


def write_corpus(
    folder: Path,
    pairs: Iterable[tuple[str, str]],
    texts: Mapping[str, str] | None = None,
    truth: Mapping[str, str] | None = None,
) -> Path:
    """A text-alignment corpus: ``texts`` by document (others get a short one), ``truth`` features by pair."""
    for side in ("susp", "src", "truth"):
        (folder / side).mkdir(parents=True)
    pairs, texts = list(pairs), texts or {}
    for pair in pairs:
        for side, name in zip(("susp", "src"), pair):
            (folder / side / f"{name}.txt").write_text(texts.get(name, f"text of {name}"))
    (folder / "pairs").write_text("".join(f"{susp}.txt {src}.txt\n" for susp, src in pairs))
    for susp, src in pairs if truth is None else [tuple(name.split("-", 1)) for name in truth]:
        features = (truth or {}).get(f"{susp}-{src}", "")
        (folder / "truth" / f"{susp}-{src}.xml").write_text(TRUTH.format(f"{susp}.txt", features))
    return folder
