"""Every command refuses an encoder folder that would run code, read other files or block forever."""

import json
import os
import pickle
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.cli import run_command
from tests.conftest import SMALL_ENCODER

TEXT = "The samples held salt. Nobody on the quay said a word about it, and the river forgot its bed.\n"
COMMANDS = ("run", "index", "models verify")
POOLING = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}
DENSE = {"in_features": 32, "out_features": 8, "bias": False}
TANH = "torch.nn.modules.activation.Tanh"

Change = Callable[[Path], None]


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    """End a test that blocks on a pipe."""

    def ring(*_: object) -> None:
        raise TimeoutError("a command hangs")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(300)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


class Marker:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.fixture
def encoder(encoder_package: Path, tmp_path: Path) -> Path:
    """Return a copy of a small embedding model, for a test to change."""
    return Path(shutil.copytree(encoder_package / SMALL_ENCODER / "model", tmp_path / "encoder"))


@pytest.fixture
def command(encoder: Path, tmp_path: Path) -> Callable[[str], int]:
    """Return a function that runs a command on a small corpus with ``encoder`` and returns the exit code."""
    data, profile = tmp_path / "input", tmp_path / "profile.toml"
    data.mkdir()
    records = [{"doc_id": f"d{i}", "default_text": f"Document {i}. {TEXT}"} for i in range(3)]
    (data / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (data / "queries.jsonl").write_text(json.dumps({"qid": "q", "query": TEXT}) + "\n")
    routes = 'rerank = false\nroutes = ["dense-sentence"]\nfusion = "none"'
    tables = f'[retrieval]\n{routes}\n[retrieval.dense]\nmodel = "{encoder}"\n'
    profile.write_text(f'name = "profile"\ndescription = "a test"\n{tables}')
    more = {
        "run": ["--input", data, "--output", tmp_path / "output", "--device", "cpu", "--no-metadata"],
        "index": ["--input", data, "--index", tmp_path / "index", "--device", "cpu"],
        "models verify": [],
    }

    def call(name: str) -> int:
        return run_command([*name.split(), "--profile", str(profile), *map(str, more[name])])

    return call


def edit(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def put(path: Path, text: str) -> None:
    path.write_text(text)


def add_module(folder: Path, kind: str, path: str = "3_More", **fields: object) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": len(modules), "name": str(len(modules)), "path": path, "type": kind} | fields)
    (folder / "modules.json").write_text(json.dumps(modules))


def add_dense(folder: Path, **fields: object) -> None:
    """Add a layer with weights, as the library writes it."""
    import numpy as np
    from safetensors.numpy import save_file

    add_module(folder, "sentence_transformers.models.Dense")
    (folder / "3_More").mkdir()
    (folder / "3_More" / "config.json").write_text(json.dumps(DENSE | {"activation_function": TANH} | fields))
    save_file({"linear.weight": np.eye(8, 32, dtype=np.float32)}, folder / "3_More" / "model.safetensors")


def pickled(folder: Path, name: str) -> None:
    (folder / name).write_bytes(pickle.dumps(Marker(folder.parent / "marker")))


def router(folder: Path) -> None:
    """The published attack: a Router names a function of another package, and a text file is a pickle."""
    add_module(folder, "sentence_transformers.models.Router", "")
    pickled(folder, "vocabulary.txt")
    config = {
        "types": {"vocabulary.txt": "sklearn.utils.parallel.joblib"},
        "structure": {"q": ["vocabulary.txt"]},
        "parameters": {},
    }
    (folder / "router_config.json").write_text(json.dumps(config))


def unsafe_dense(folder: Path) -> None:
    add_dense(folder)
    (folder / "3_More" / "model.safetensors").unlink()
    pickled(folder / "3_More", "pytorch_model.bin")


def unsafe_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    pickled(folder, "pytorch_model.bin")


def elsewhere(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder.parent / "outside.safetensors")
    index = {"metadata": {}, "weight_map": {"embeddings": "../outside.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def linked_device(folder: Path) -> None:
    (folder / "special_tokens_map.json").unlink()
    (folder / "special_tokens_map.json").symlink_to("/dev/zero")


def linked_folder(folder: Path) -> None:
    (folder / "1_Pooling").rename(folder.parent / "pooling")
    (folder / "1_Pooling").symlink_to(folder.parent / "pooling")


HOSTILE: dict[str, tuple[Change, str]] = {
    "a router": (router, r"modules.json: 3.type: 'sentence_transformers.models.Router' is code of its own"),
    "word embeddings": (
        lambda f: add_module(f, "sentence_transformers.models.WordEmbeddings"),
        "modules.json: 3.type: 'sentence_transformers.models.WordEmbeddings' is code of its own",
    ),
    "a function of the library": (
        lambda f: add_module(f, "sentence_transformers.util.import_from_string"),
        "modules.json: 3.type: ",
    ),
    "a class of the folder": (lambda f: add_module(f, "custom.Transformer"), "modules.json: 3.type: "),
    "a module outside": (
        lambda f: add_module(f, "sentence_transformers.models.Pooling", "../outside"),
        "modules.json: 3.path: '../outside' leads out of its folder",
    ),
    "a long name": (
        lambda f: add_module(f, "sentence_transformers.models.Normalize", "n" * 300),
        "modules.json: 3.path: ",
    ),
    "a million layers": (
        lambda f: edit(f / "config.json", num_hidden_layers=10**6),
        "config.json: num_hidden_layers is above 1000",
    ),
    "an unknown key of a module": (
        lambda f: add_module(f, "sentence_transformers.models.Normalize", kwargs=["task"]),
        "modules.json: 3.kwargs: ",
    ),
    "no module": (lambda f: put(f / "modules.json", "[]"), "modules.json: not a Transformer followed"),
    "two transformers": (
        lambda f: add_module(f, "sentence_transformers.models.Transformer", ""),
        "modules.json: not a Transformer followed",
    ),
    "nested brackets": (
        lambda f: put(f / "modules.json", "[" * 10**6),
        "modules.json: cannot be read as",
    ),
    "a list of activations": (
        lambda f: add_dense(f, activation_function=["torch.hub.load"]),
        "3_More/config.json: activation_function: .'torch.hub.load'. is code of its own",
    ),
    "an activation": (
        lambda f: add_dense(f, activation_function="torch.hub.load"),
        "3_More/config.json: activation_function: 'torch.hub.load' is code of its own",
    ),
    "an unknown key of a layer": (lambda f: add_dense(f, init_weight="x"), "3_More/config.json: init_weight: "),
    "pickled weights of a layer": (unsafe_dense, "3_More: no weights in safetensors format were found"),
    "pickled weights": (unsafe_weights, ": no weights in safetensors format were found"),
    "weights outside": (elsewhere, "model.safetensors.index.json: names '../outside.safetensors'"),
    "weights elsewhere": (
        lambda f: edit(f / "config.json", transformers_weights="../outside.safetensors"),
        "config.json: the checkpoint asks to .* elsewhere .transformers_weights",
    ),
    "a kernel that is fetched": (
        lambda f: edit(f / "config.json", attn_implementation="someone/kernel"),
        "config.json: the checkpoint asks to run code of its own",
    ),
    "code of an inner model": (
        lambda f: edit(f / "config.json", text_config={"auto_map": {"AutoModel": "custom.Model"}}),
        "config.json: the checkpoint asks to run code of its own",
    ),
    "arguments of the loader": (
        lambda f: edit(f / "sentence_bert_config.json", model_args={"use_safetensors": False}),
        "sentence_bert_config.json: model_args: ",
    ),
    "a tokenizer elsewhere": (
        lambda f: edit(f / "sentence_bert_config.json", tokenizer_name_or_path="/outside"),
        "sentence_bert_config.json: tokenizer_name_or_path: ",
    ),
    "a former name of the settings": (
        lambda f: put(f / "sentence_roberta_config.json", '{"config_args": {}}'),
        "sentence_roberta_config.json: config_args: ",
    ),
    "any method of the model": (
        lambda f: edit(
            f / "sentence_bert_config.json",
            modality_config={"text": {"method": "save_pretrained", "method_output_name": None}},
        ),
        "sentence_bert_config.json: modality_config.text.method: ",
    ),
    "another kind of model": (
        lambda f: edit(f / "config_sentence_transformers.json", model_type="SparseEncoder"),
        "config_sentence_transformers.json: model_type: ",
    ),
    "an unknown key of the model": (
        lambda f: edit(f / "config_sentence_transformers.json", loader="x"),
        "config_sentence_transformers.json: loader: ",
    ),
    "an unknown key of the pooling": (
        lambda f: edit(f / "1_Pooling" / "config.json", hook="x"),
        "1_Pooling/config.json: hook: ",
    ),
    "an adapter": (lambda f: put(f / "adapter_config.json", "{}"), ": this is an adapter"),
    "a Python file": (
        lambda f: (f / "1_Pooling" / "x.py").touch(),
        "1_Pooling/x.py: the model contains code of its own",
    ),
    "an inner folder elsewhere": (linked_folder, "1_Pooling: an inner folder is a link"),
    "a pipe": (lambda f: os.mkfifo(f / "1_Pooling" / "vocab.txt"), "1_Pooling/vocab.txt: not a regular file"),
    "a device": (linked_device, "special_tokens_map.json: not a regular file"),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("case", HOSTILE)
def test_an_encoder_that_would_run_code_or_reads_elsewhere(
    case: str,
    name: str,
    encoder: Path,
    command: Callable[[str], int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change, says = HOSTILE[case]
    change(encoder)
    assert command(name) == 2
    said = capsys.readouterr().err
    assert re.match(rf"error: {re.escape(str(encoder))}/?{says}", said), said
    assert said.count("\n") == 1
    assert not (tmp_path / "marker").exists()
    assert not [p for p in (tmp_path / "output").glob("*") if not p.name.startswith(".")]


@pytest.mark.parametrize(
    "fields", [{"hidden_size": -384}, {"hidden_size": 768}, {"model_type": "none"}, {"vocab_size": "x"}]
)
def test_an_encoder_with_a_damaged_config(
    fields: dict[str, object], encoder: Path, command: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    edit(encoder / "config.json", **fields)
    assert command("index") == 2
    assert capsys.readouterr().err.startswith(f"error: {encoder}: the embedding model cannot be loaded: ")


def test_an_encoder_that_lacks_a_weight(
    encoder: Path, command: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    """The library would fill it with random numbers and give other vectors in every run."""
    from safetensors.numpy import load_file, save_file

    weights, lacking = load_file(encoder / "model.safetensors"), "encoder.layer.0.output.dense.weight"
    del weights[lacking], weights["pooler.dense.weight"]
    save_file(weights, encoder / "model.safetensors", metadata={"format": "pt"})
    assert command("index") == 2
    assert capsys.readouterr().err.splitlines() == [
        f"error: {encoder}: the embedding model lacks 1 weights, {lacking} first; copy the model's folder again"
    ]


def with_the_prefix_of_a_larger_model(folder: Path) -> None:
    """As a checkpoint that was trained with a head, and without the pooler, which is not used."""
    from safetensors.numpy import load_file, save_file

    weights = {f"bert.{name}": w for name, w in load_file(folder / "model.safetensors").items() if "pooler" not in name}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("name", ["run", "index"])
def test_an_encoder_with_a_damaged_tokenizer(
    name: str, encoder: Path, command: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    put(encoder / "tokenizer.json", '{"version": "1.0"')
    assert command(name) == 2
    assert capsys.readouterr().err.startswith(f"error: {encoder}/tokenizer.json: not a tokenizer: ")


def as_the_library_saves_it(folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    shutil.rmtree(folder)
    model.save(str(folder))


def as_a_snapshot(folder: Path) -> None:
    blobs = folder.parent / "blobs"
    blobs.mkdir()
    for number, path in enumerate(sorted(p for p in folder.rglob("*") if p.is_file())):
        path.rename(blobs / str(number))
        path.symlink_to(os.path.relpath(blobs / str(number), path.parent))


def with_names_of_foreign_classes(folder: Path) -> None:
    """As gte-Qwen2: transformers takes its own classes, because it is told to trust no others."""
    edit(folder / "config.json", auto_map={"AutoModel": "modeling.Model"})
    edit(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["tokenization.Slow", "tokenization.Fast"]})


@pytest.mark.parametrize(
    "change",
    [
        as_the_library_saves_it,
        as_a_snapshot,
        with_names_of_foreign_classes,
        with_the_prefix_of_a_larger_model,
        add_dense,
    ],
    ids=lambda f: f.__name__,
)
def test_encoders_as_they_are_published(change: Change, encoder: Path) -> None:
    import numpy as np

    from pan_scdg.models.encoder import load_encoder

    before = load_encoder(encoder, "cpu").encode([TEXT])
    change(encoder)
    after = load_encoder(encoder, "cpu").encode([TEXT])
    assert np.array_equal(before, after) or (change is add_dense and after.shape == (1, 8))
