"""The readers of foreign input, each with valid files."""

import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile

from pan_scdg.documents import folders, reader
from pan_scdg.errors import UserError
from pan_scdg.jobs.tira import read_manifest
from pan_scdg.methods.vectors import find_vector_file, read_vector
from pan_scdg.models.checkpoint import diagnose_tokenizer, list_weight_files, read_config
from pan_scdg.models.encoder_files import check_encoder
from pan_scdg.notices import Notices
from pan_scdg.pan import inputs, prepare, runs, source_retrieval, text_alignment, truth
from pan_scdg.pan.untrusted import open_regular
from pan_scdg.profile import load_profile
from tests.documents.office_files import BODY, COLUMNS, ODT_BODY, make_docx, make_odt, make_pdf
from tests.fuzz.mutations import (
    CSV,
    JSON,
    LINES,
    PDF,
    TOML,
    XML,
    YAML,
    Format,
    encode_utf8,
    pack_gzip,
    pack_npy,
    pack_safetensors,
)

ROOT = Path(__file__).parents[2]


class Target(NamedTuple):
    """A reader of a folder, and the valid files in it: format and text of those that are changed, text of others."""

    name: str
    read: Callable[[Path], object]
    files: dict[str, tuple[Format, str]]
    others: dict[str, str] = {}  # noqa: RUF012 - never changed
    writes: bool = False
    """It writes into the folder, which is made anew for each input."""
    refuses: bool = True
    """Some changes have to be refused."""


FEATURE = (
    '<feature name="plagiarism" this_offset="0" this_length="5" source_reference="r{0}.txt" source_offset="2" '
    'source_length="4"/>'
)
TRUTH = f'<document reference="s1.txt">\n{FEATURE.format(1)}\n</document>\n'
SPANS = f'<document reference="s2.txt">\n{FEATURE.format(2)}\n{FEATURE.format(1)}\n</document>\n'
TEXT = "The ferry left at six. Nobody waved.\n\nA lamp was lit in the tower.\n"
TEXTS = {f"{side}/{name}{number}.txt": TEXT for side, name in (("susp", "s"), ("src", "r")) for number in (2,)}
PAIRS = "s1.txt r1.txt\ns2.txt r2.txt\ns1.txt r2.txt\n"
CORPUS = "".join(f'{{"doc_id": "d/{i}", "default_text": "{TEXT[:20]}"}}\n' for i in range(3))
QUERIES = "".join(f'{{"qid": "q{i}", "query": "{TEXT[:20]}"}}\n' for i in range(3))
QRELS = "q0 0 d/0 1\nq0 0 d/1 2\nq1 0 d/2 1\n"
RUN = "q0 Q0 d/0 1 3.5 x\nq0 Q0 d/1 2 1.5 x\nq1 Q0 d/2 1 2.0 x\n"
HTML = "<html><head><title>A</title></head><body><h1>B</h1><p>Some <b>words</b> &amp; more.</p></body></html>\n"
HTML_STYLES = (
    "<style>:root { --a: rgb(9% 9% 9% / 1) } p > .a { color: #fff } @media screen { #b { font-size: 0.1em } }"
    "p:not([id=c]):nth-child(2n + 1) ~ i, b:has(u) { color: var(--a, hsl(0 0% 1%)); filter: opacity(0) }</style>"
    '<p>One <i class="a">two</i> <b id="b" style="left: -999px">three</b><blockquote>four</blockquote></p>\n'
)
DOCX = (
    f"{BODY}<w:p><w:pPr><w:ind w:left='720' w:right='720'/><w:pStyle w:val='a'/></w:pPr><w:r><w:rPr>"
    "<w:rStyle w:val='b'/>"
    "<w:sz w:val='2'/><w:color w:val='FFFFFF'/><w:shd w:fill='000000'/></w:rPr><w:t>tiny</w:t><w:br w:type='page'/>"
    "<w:pict><w:txbxContent><w:p><w:r><w:t>box</w:t></w:r></w:p></w:txbxContent></w:pict></w:r><w:bdo><w:r><w:t>x</w:t>"
    "</w:r></w:bdo></w:p>\n=\n<w:style w:type='character' w:styleId='b'><w:basedOn w:val='a'/><w:rPr>"
    "<w:vanish/></w:rPr></w:style><w:style w:type='paragraph' w:styleId='a'><w:name w:val='Quote'/>"
    "<w:basedOn w:val='b'/></w:style>"
)
ODT = (
    f"{ODT_BODY}<text:p text:style-name='P'>one<text:s text:c='3'/><text:span text:style-name='S'>two</text:span>"
    "<draw:frame svg:x='-3cm'><draw:text-box><text:p>box</text:p></draw:text-box></draw:frame></text:p>\n=\n"
    "<style:style style:name='S' style:family='text' style:parent-style-name='S'><style:text-properties "
    "fo:font-size='1pt' fo:color='#ffffff'/></style:style>"
)
ZIP = f"a.txt: {TEXT[:20]}\nin/b.html: <p>One</p>\nin/.hidden: x\n__MACOSX/c.txt: x\n"
TABLE = "suspicious,source,reused\nsusp/s1.txt,src/r1.txt,yes\nsusp/s2.txt,src/r2.txt,no\n"
PROFILE = (ROOT / "pan_scdg" / "profiles" / "offline.toml").read_text(encoding="utf-8")
MANIFEST = (ROOT / "tira.yml").read_text(encoding="utf-8")
VECTOR = "{'descr': '<f4', 'fortran_order': False, 'shape': (16,), }"
CONFIG = json.loads((ROOT / "model_cache" / "scdg-mini" / "config.json").read_text(encoding="utf-8"))
WEIGHTS = '{"w": {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 64]}}'
TOKENIZER = '{"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}'
MODULES = [
    {"idx": i, "name": str(i), "path": p, "type": f"sentence_transformers.models.{t}"}
    for i, (p, t) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")))
]
POOLING = '{"word_embedding_dimension": 4, "pooling_mode_mean_tokens": true}'
BERT = '{"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 4, "num_hidden_layers": 1}'


def _read_pairs(folder: Path) -> None:
    for pair in text_alignment.read_pairs(folder, Notices()).pairs:
        text_alignment.read_text(pair.suspicious)
        text_alignment.read_text(pair.source)
    inputs.hash_input(folder, inputs.detect_task(folder))


def _read_truth(folder: Path) -> None:
    names = [text_alignment.TextFile(name, f"{name}.txt", folder / f"{name}.txt") for name in ("s1", "r1")]
    truth.read_truth(folder, [text_alignment.DocumentPair(*names, 1)])
    truth.read_features(folder / "truth", "plagiarism")


def _read_corpus(folder: Path) -> None:
    for document in source_retrieval.stream_corpus(folder, Notices()):
        document.text.encode("utf-8")


def _read_table(folder: Path) -> None:
    prepare.prepare_pairs(folder / "pairs.csv", folder / "made")
    prepare.read_names(folder / "made")


def _convert(name: str) -> Callable[[Path], object]:
    """Convert a file in this process, as the process that converts does."""

    def read(folder: Path) -> None:
        with open_regular(folder / name):
            answer = reader.answer_for(folder / name)
        if "error" in answer:
            raise UserError(*answer["error"])
        json.dumps(answer).encode("utf-8")

    return read


def _convert_html(folder: Path) -> None:
    reader.read_any_document(folder / "a.html")


def _pack_docx(text: str) -> bytes:
    """Return a DOCX whose body and styles are this text, apart at a line."""
    body, _, styles = text.partition("\n=\n")
    return make_docx(body, parts={"styles.xml": styles})


def _pack_odt(text: str) -> bytes:
    body, _, styles = text.partition("\n=\n")
    return make_odt(body, styles=styles)


def _pack_zip(text: str) -> bytes:
    """Return a zip file that has an entry for each line, a name and its content."""
    packed = io.BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names recur
        for name, _, content in (line.partition(": ") for line in text.splitlines()):
            stored = name[:9000].partition("\0")[0].encode(errors="replace").decode()
            file.writestr(stored or ".", encode_utf8(content))
    return packed.getvalue()


def _read_model(folder: Path) -> None:
    read_config(folder)
    list_weight_files(folder)
    if fault := diagnose_tokenizer(folder):
        raise fault


TARGETS = (
    Target(
        "pairs",
        _read_pairs,
        {"pairs": (LINES, PAIRS), "susp/s1.txt": (LINES, TEXT), "src/r1.txt": (LINES, TEXT)},
        TEXTS,
    ),
    Target("truth", _read_truth, {"truth/s1-r1.xml": (XML, TRUTH), "truth/s2-r2.xml": (XML, SPANS)}),
    Target("corpus", _read_corpus, {"corpus.jsonl": (JSON, CORPUS)}),
    Target("packed", _read_corpus, {"corpus.jsonl.gz": (JSON._replace(encode=pack_gzip), CORPUS)}),
    Target("queries", lambda f: source_retrieval.read_queries(f, Notices()), {"queries.jsonl": (JSON, QUERIES)}),
    Target("qrels", lambda f: source_retrieval.read_qrels(f / "qrels.txt"), {"qrels.txt": (LINES, QRELS)}),
    Target("run", lambda f: runs.read_run(runs.find_run(f)), {"run.txt": (LINES, RUN)}),
    Target(
        "run-gz", lambda f: runs.read_run(runs.find_run(f)), {"run.txt.gz": (LINES._replace(encode=pack_gzip), RUN)}
    ),
    Target(
        "texts",
        lambda f: folders.read_documents(f, Notices()),
        {"a.txt": (LINES, TEXT), "in/b.html": (XML, HTML)},
        refuses=False,
    ),
    Target(
        "zip",
        lambda f: folders.read_documents(f / "a.zip", Notices()),
        {"a.zip": (LINES._replace(encode=_pack_zip), ZIP)},
    ),
    Target("docx", _convert("a.docx"), {"a.docx": (XML._replace(encode=_pack_docx), DOCX)}),
    Target("odt", _convert("a.odt"), {"a.odt": (XML._replace(encode=_pack_odt), ODT)}),
    Target("pdf", _convert("a.pdf"), {"a.pdf": (PDF, make_pdf([COLUMNS]).decode("latin-1"))}),
    Target("html", _convert_html, {"a.html": (XML, HTML_STYLES)}, refuses=False),
    Target(
        "table",
        _read_table,
        {"pairs.csv": (CSV, TABLE), "susp/s1.txt": (LINES, TEXT)},
        {**TEXTS, "src/r1.txt": TEXT},
        writes=True,
    ),
    Target("profile", lambda f: load_profile(str(f / "p.toml")), {"p.toml": (TOML, PROFILE)}),
    Target("tira", lambda f: read_manifest(f / "tira.yml"), {"tira.yml": (YAML, MANIFEST)}),
    Target(
        "vectors",
        lambda f: read_vector(find_vector_file(f, "a.txt")),
        {"a.txt.npy": (LINES._replace(encode=pack_npy), VECTOR)},
    ),
    Target(
        "model",
        _read_model,
        {
            "config.json": (JSON, json.dumps(CONFIG, indent=1)),
            "tokenizer.json": (JSON, TOKENIZER),
            "tokenizer_config.json": (JSON, '{"tokenizer_class": "PreTrainedTokenizerFast"}'),
            "model.safetensors": (JSON._replace(encode=pack_safetensors), WEIGHTS),
        },
    ),
    Target(
        "encoder",
        check_encoder,
        {
            "modules.json": (JSON, json.dumps(MODULES)),
            "config.json": (JSON, BERT),
            "1_Pooling/config.json": (JSON, POOLING),
            "tokenizer_config.json": (JSON, "{}"),
            "model.safetensors": (JSON._replace(encode=pack_safetensors), WEIGHTS),
        },
        {"tokenizer.json": TOKENIZER},
    ),
)
