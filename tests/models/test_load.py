"""Loading of checkpoints: intact, damaged, hostile, and altered."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.cli import run_command
from pan_scdg.errors import UserError
from pan_scdg.models import devices
from pan_scdg.models import load as models
from pan_scdg.models.checkpoint import INDEX, ModelConfig, check_library, read_config
from pan_scdg.models.encoder import load_encoder
from pan_scdg.models.find import find_model
from pan_scdg.models.fingerprint import fingerprint_weights
from pan_scdg.models.load import check_probes, load_model, load_tokenizer
from pan_scdg.settings import ModelSettings
from tests.stand_ins import FEW_TOKENS, POOLING, write_checkpoint
from tests.stand_ins.tokenizer_files import WRITERS

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

OLD_LIBRARY = int(transformers.__version__.partition(".")[0]) < 5
FP32 = ModelSettings(name="tiny", dtype="float32")
EAGER = ModelSettings(name="tiny", dtype="float32", attention="eager")  # the only one of Gemma 2 in transformers 5
TEXTS = ("The tide turned", "\n\n", "17.5 Übermut")
Ids = dict[str, tuple[int, ...]]


@pytest.fixture
def copied(tiny_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    """Return a Qwen3 checkpoint that a test may damage."""
    return Path(shutil.copytree(tiny_folder("qwen3"), tmp_path / "model"))


@pytest.fixture
def parts(copied: Path) -> Path:
    """Return the same weights in two files with an index, as large checkpoints are published."""
    from safetensors.torch import load_file, save_file

    weights = load_file(copied / "model.safetensors")
    (copied / "model.safetensors").unlink()
    files = {name: f"model-{1 + i % 2}.safetensors" for i, name in enumerate(weights)}
    for file in sorted(set(files.values())):
        save_file({n: w for n, w in weights.items() if files[n] == file}, copied / file, metadata={"format": "pt"})
    (copied / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": files}))
    return copied


@pytest.fixture
def ids(tiny_tokenizer: Callable[..., Any]) -> Ids:
    """Return the ids from the tokenizers library itself, without transformers."""
    backend = tiny_tokenizer().backend_tokenizer
    return {text: tuple(backend.encode(text, add_special_tokens=False).ids) for text in TEXTS}


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("architecture", ["qwen3", "qwen2", "llama", "mistral3"])
def test_a_loaded_model_is_frozen_and_has_its_fingerprint(
    tiny_folder: Callable[[str], Path], architecture: str
) -> None:
    lm = load_model(tiny_folder(architecture), FP32, "cpu")
    assert (lm.name, lm.device, lm.positions) == ("tiny", "cpu", 2048)
    assert lm.fingerprint == fingerprint_weights(tiny_folder(architecture))
    assert not lm.model.training
    assert not any(p.requires_grad for p in lm.model.parameters())
    assert lm.model.dtype == torch.float32
    assert architecture != "mistral3" or type(lm.model).__name__ == models.MISTRAL3


def test_dtype_and_attention_are_those_of_the_profile(tiny_folder: Callable[[str], Path]) -> None:
    settings = ModelSettings(name="tiny", dtype="float16", attention="eager")
    model = load_model(tiny_folder("llama"), settings, "cpu").model
    assert (model.dtype, model.config._attn_implementation) == (torch.float16, "eager")


def test_the_tokenizer_needs_no_weights_and_neither_cuts_nor_warns(
    copied: Path, tiny_folder: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = load_tokenizer(copied, FP32)
    assert len(tokenizer.encode("\n" * 40_000, add_special_tokens=True)) == 40_001
    assert "sequence length" not in caplog.text
    assert tokenizer.encode("salt", add_special_tokens=True)[0] == tokenizer.bos_token_id == 0
    assert load_tokenizer(tiny_folder("qwen3-no-bos"), FP32).bos_token_id is None
    (copied / "model.safetensors").unlink()
    config = read_config(copied, weights=False)
    assert load_tokenizer(copied, FP32, config).encode("salt", add_special_tokens=False)


def test_the_tokenizer_encodes_the_probes_of_the_profile(tiny_folder: Callable[[str], Path], ids: Ids) -> None:
    folder = tiny_folder("qwen3")
    tokenizer = load_tokenizer(folder, FP32.model_copy(update={"probes": ids}))
    assert tokenizer.encode(TEXTS[0], add_special_tokens=True) != list(ids[TEXTS[0]]), "probes have no special tokens"
    with pytest.raises(UserError) as e:
        load_tokenizer(folder, FP32.model_copy(update={"probes": ids | {"\n\n": (7, 8)}}))
    assert e.value.what == f"the tokenizer encodes '\\n\\n' as {list(ids[TEXTS[1]])}, but the profile expects [7, 8]"
    with pytest.raises(UserError, match="the profile expects"):
        check_probes(tokenizer, {TEXTS[0]: (*ids[TEXTS[0]], 5)}, folder)


def test_nothing_is_advised_about_large_vocabularies(copied: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = json.loads((copied / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary.update({f"zz{number}qq": number for number in range(len(vocabulary), 110_000)})
    (copied / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert len(load_tokenizer(copied, FP32)) == 110_000  # type: ignore[arg-type]
    assert not caplog.records


# the vocabulary of bge-m3 itself has pieces such as <s>
@pytest.mark.parametrize(
    "name", sorted(WRITERS.keys() - {"bge-m3"} - ({"Ministral-3-8B-Base-2512"} if OLD_LIBRARY else set()))
)
def test_special_tokens_that_a_text_spells_out_are_text(name: str, tmp_path: Path) -> None:
    folder = write_checkpoint(name, tmp_path / name, **FEW_TOKENS)
    tokenizer: Any = load_encoder(folder, "cpu").tokenizer if name in POOLING else load_tokenizer(folder, FP32)
    text = "a" + "a".join([*tokenizer.all_special_tokens, "<|endoftext|>", "<s>", "[SEP]"])
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    assert not set(encoded["input_ids"]) & set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    assert {i for start, end in encoded["offset_mapping"] for i in range(start, end)} == set(range(len(text)))


def test_a_generic_tokenizer_is_not_replaced_by_that_of_the_model_family(tiny_folder: Callable[[str], Path]) -> None:
    """transformers 5 would take Qwen2's class, which has a pre-tokenizer and a padding token of its own."""
    tokenizer: Any = load_tokenizer(tiny_folder("qwen2"), FP32)
    assert len(tokenizer) == 400
    spelt = tokenizer.convert_ids_to_tokens(tokenizer.encode("salt.\n\nNobody", add_special_tokens=False))
    assert spelt.count("Ċ") == 2, "every newline is a token of its own; Qwen2's pre-tokenizer joins them"


def test_a_tokenizer_of_vocabulary_and_merges_is_loaded_as_a_fast_one(copied: Path, ids: Ids) -> None:
    """As Qwen published them first; a checkpoint with a slow tokenizer alone is refused."""
    backend = json.loads((copied / "tokenizer.json").read_text())["model"]
    (copied / "tokenizer.json").unlink()
    (copied / "vocab.json").write_text(json.dumps(backend["vocab"]))
    (copied / "merges.txt").write_text("#version: 0.2\n" + "\n".join(map(" ".join, backend["merges"])) + "\n")
    (copied / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Qwen2Tokenizer"}))
    tokenizer: Any = load_tokenizer(copied, FP32)
    assert tokenizer.is_fast
    assert tokenizer.encode(TEXTS[0], add_special_tokens=True) == list(ids[TEXTS[0]])
    if OLD_LIBRARY:
        (copied / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "CTRLTokenizer"}))
        with pytest.raises(UserError, match="no fast tokenizer"):
            load_tokenizer(copied, FP32)


def test_weights_in_parts(parts: Path) -> None:
    assert load_model(parts, FP32, "cpu").positions == 2048
    path = parts / "model-1.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match="the model cannot be loaded"):
        load_model(parts, FP32, "cpu")
    shutil.copy(parts / "model-2.safetensors", path)
    with pytest.raises(UserError, match="weights are missing|cannot be loaded"):
        load_model(parts, FP32, "cpu")
    path.unlink()
    with pytest.raises(UserError, match=r"model-1\.safetensors: the index names this file, but it is missing"):
        load_model(parts, FP32, "cpu")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("{}", "has no weight_map"),
        ('{"weight_map": ["x"]}', "has no weight_map"),
        ('{"weight_map": {"a": ["x"]}}', "names no file for a"),
        ('{"weight_map": {"a": "../b.safetensors"}}', "not a safetensors file in the same folder"),
        ('["x"]', "is not a JSON object"),
    ],
)
def test_a_damaged_index(parts: Path, content: str, what: str) -> None:
    (parts / INDEX).write_text(content)
    with pytest.raises(UserError, match=what):
        load_model(parts, FP32, "cpu")


def test_incomplete_weights_are_not_made_up(copied: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(copied / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, copied / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"1 weights are missing, model\.norm\.weight first"):
        load_model(copied, FP32, "cpu")


def without_a_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


UP = "model.layers.0.mlp.up_proj.weight"


def with_weights(change: Callable[[Any], Any], name: str = UP) -> Callable[[Path], None]:
    """A change of some weights."""

    def damage(folder: Path) -> None:
        from safetensors.torch import load_file, save_file

        weights = load_file(folder / "model.safetensors")
        change(weights[name])
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    return damage


def zero_filled(folder: Path) -> None:
    """What a download that reserved the whole file leaves when it stops."""
    path = folder / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))


def larger_tokenizer(folder: Path) -> None:
    tokenizer: Any = load_tokenizer(folder, FP32)
    tokenizer.add_tokens([f"<extra{i}>" for i in range(20)])
    tokenizer.save_pretrained(folder)


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no folder": (without_a_folder, "model folder does not exist"),
    "no config": (lambda f: (f / "config.json").unlink(), r"config\.json: the model folder lacks this file"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "no weights in safetensors"),
    "a pickle": (pickled, "no weights in safetensors"),
    "bytes": (lambda f: (f / "model.safetensors").write_bytes(b"\xff" * 100), "the model cannot be loaded"),
    "a half of zeros": (
        zero_filled,
        "weights .* are damaged: .* rows are zero. Fetch or copy",
    ),
    "lost blocks": (
        with_weights(lambda w: w[len(w) // 4 :].zero_()),
        f"{UP} are damaged: 75% of their rows",
    ),
    "a number that is none": (
        with_weights(lambda w: w[0].fill_(float("nan"))),
        f"{UP} have values that are",
    ),
    "an infinite number": (
        with_weights(lambda w: w[:1].fill_(float("inf")), "model.norm.weight"),
        r"model\.norm\.weight have values that are not finite. Fetch",
    ),
    "a norm of zeros": (with_weights(lambda w: w.zero_(), "model.norm.weight"), "all tokens the same probability"),
    "half an object": (lambda f: (f / "config.json").write_text("{"), "cannot be read as JSON"),
    "a list": (lambda f: (f / "config.json").write_text("[]"), "is not a JSON object"),
    "brackets": (
        lambda f: (f / "tokenizer_config.json").write_text('{"a":' * 100_000),
        r"tokenizer_config\.json: cannot be read as JSON",
    ),
    "an adapter": (lambda f: (f / "adapter_config.json").write_text("{}"), "this is an adapter"),
    "an unknown model": (
        lambda f: edit(f / "config.json", model_type="never-heard-of", architectures=["NeverHeardOf"]),
        "cannot be loaded",
    ),
    "a million layers": (
        lambda f: edit(f / "config.json", num_hidden_layers=10**6),
        r"config\.json: num_hidden_layers is above 1000",
    ),
    "a type that is a list": (
        lambda f: edit(f / "config.json", model_type=["qwen3"]),
        r"config\.json: model_type is of type list, not str",
    ),
    "positions that are true": (
        lambda f: edit(f / "config.json", max_position_embeddings=True),
        r"config\.json: max_position_embeddings is of type bool, not int",
    ),
    "a text config that is a list": (
        lambda f: edit(f / "config.json", text_config=["x"]),
        r"config\.json: text_config is of type list, not dict",
    ),
    "a quantization that is a number": (lambda f: edit(f / "config.json", quantization_config=5), "cannot be loaded"),
    "a larger tokenizer": (larger_tokenizer, "files of one checkpoint"),
    "added tokens that are a list": (
        lambda f: edit(f / "tokenizer_config.json", added_tokens_decoder=["x"]),
        "the tokenizer cannot be loaded",
    ),
    "classes of its own": (
        lambda f: edit(f / "config.json", auto_map={"AutoModelForCausalLM": "custom.Model"}),
        r"config\.json: the checkpoint would run its own code or read other files \(auto_map\)",
    ),
    "classes of its own, nested": (
        lambda f: edit(f / "config.json", vision_config=[{"auto_map": {"AutoModel": "custom.Model"}}]),
        r"\(auto_map, nested\)",
    ),
    "a tokenizer of its own": (
        lambda f: edit(f / "tokenizer_config.json", auto_map={"AutoTokenizer": ["custom.Tokenizer", None]}),
        r"tokenizer_config\.json: the checkpoint would run its own code",
    ),
    "weights elsewhere": (
        lambda f: edit(f / "config.json", transformers_weights="../outside.safetensors"),
        r"\(transformers_weights\)",
    ),
    "a kernel of the hub": (
        lambda f: edit(f / "config.json", attn_implementation="someone/kernel"),
        r"\(attn_implementation\)",
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_or_hostile_checkpoint_is_refused(case: str, copied: Path) -> None:
    damage, what = DAMAGE[case]
    damage(copied)
    with pytest.raises(UserError, match=what) as error:
        load_model(copied, FP32, "cpu")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\0\xff", b'{"model": {"type": "BPE", "vocab": {'])
def test_a_damaged_tokenizer_is_called_so(damage: bytes, copied: Path) -> None:
    (copied / "tokenizer.json").write_bytes(damage)
    with pytest.raises(UserError) as error:
        load_tokenizer(copied, FP32)
    assert str(error.value).startswith(f"{copied}/tokenizer.json: not a tokenizer: ")
    assert "protobuf" not in str(error.value)


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors", "generation_config.json"])
def test_a_pipe_in_the_place_of_a_file(file: str, copied: Path) -> None:
    (copied / file).unlink()
    os.mkfifo(copied / file)
    with pytest.raises(UserError, match=r"has no config\.json|not a regular file"):
        find_model("tiny", copied)
    if file == "config.json":
        with pytest.raises(UserError, match="not a regular file"):
            read_config(copied)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_pointer_in_the_place_of_a_file(file: str, copied: Path) -> None:
    (copied / file).write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2\nsize 12345\n")
    with pytest.raises(
        UserError, match=rf"{file}: this is a pointer of Git LFS, not the file itself. Run `git lfs pull`"
    ):
        find_model("tiny", copied)


def test_rows_of_tokens_that_do_not_exist_may_be_zero(copied: Path) -> None:
    with_weights(lambda w: w[len(w) // 4 :].zero_(), "model.embed_tokens.weight")(copied)
    assert load_model(copied, FP32, "cpu").positions


def test_a_header_as_long_as_the_first_bytes_of_another_format_is_none(copied: Path) -> None:
    header = b"{" + b" " * (0x88B1F - 1)
    (copied / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)  # begins as a gzip file
    assert find_model("tiny", copied).folder == copied


def test_a_tokenizer_encodes_a_text_in_one_way(copied: Path, ids: Ids) -> None:
    path = copied / "tokenizer.json"
    data = json.loads(path.read_text())
    data["model"]["dropout"] = 0.5
    path.write_text(json.dumps(data))
    encode: Any = load_tokenizer(copied, FP32).encode
    assert {text: tuple(encode(text, add_special_tokens=False)) for text in ids} == ids


def test_a_command_reports_a_damaged_model_in_one_line(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(copied / "config.json", max_position_embeddings=[2048])
    for name in ("s.txt", "r.txt"):
        (tmp_path / name).write_text("The tide turned before noon.\n")
    files = [str(tmp_path / name) for name in ("s.txt", "r.txt")]
    assert run_command(["score", *files, "--profile", "scdg-mini", "--model", str(copied), "--device", "cpu"]) == 2
    line = f"error: {copied / 'config.json'}: max_position_embeddings is of type list, not int. Replace the damaged"
    assert re.fullmatch(rf"{re.escape(line)} file\.\n", capsys.readouterr().err)


def test_fields_that_are_null_or_missing_are_not_damaged(copied: Path) -> None:
    edit(copied / "config.json", architectures=None, rope_scaling=None, text_config=None, max_position_embeddings=None)
    config = read_config(copied)
    assert (config.architectures, config.positions) == ([], None)


@pytest.mark.skipif(not OLD_LIBRARY, reason="transformers 5 has this field")
def test_a_config_that_transformers_5_wrote_is_refused_by_4(copied: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    config["rope_parameters"] = {"rope_theta": 1000000.0, "rope_type": "default"}
    for data in (config, {"text_config": config}):
        with pytest.raises(UserError, match=r"config\.json: rope_parameters is a field of transformers 5"):
            check_library(ModelConfig(data))


@pytest.mark.parametrize("step", ["_load_weights", "_check_logits"])
def test_a_lack_of_memory_is_not_the_checkpoints_fault(
    copied: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise torch.AcceleratorError("CUDA error: out of memory\nCUDA kernel errors might be reported later")

    monkeypatch.setattr(models, step, fail)
    with pytest.raises(UserError, match="model does not fit in the free memory of cpu. Check whether another process"):
        load_model(copied, FP32, "cpu")


def test_the_dtype_is_never_changed_by_loading(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "can_compute", lambda dtype, _: dtype != "bfloat16")
    settings = ModelSettings(name="tiny")
    with pytest.raises(UserError, match="cpu cannot compute in bfloat16"):
        load_model(copied, settings, "cpu")


@pytest.mark.parametrize("cap", [30.0, None])
def test_capped_logits_are_noticed(tmp_path: Path, tiny_tokenizer: Callable[..., Any], cap: float | None) -> None:
    save_gemma(tmp_path, tiny_tokenizer(), final_logit_softcapping=cap)
    lm = load_model(tmp_path, FP32, "cpu")
    assert (lm.positions, lm.has_plain_logits) == (512, cap is None)
    assert lm.model.config._attn_implementation == "eager"  # the only one that caps scores


def test_an_alteration_under_another_name_is_noticed(
    tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = transformers.Qwen3ForCausalLM.forward

    def scale(*args: Any, **kwargs: Any) -> Any:
        output = plain(*args, **kwargs)
        output.logits = output.logits * 0.5
        return output

    monkeypatch.setattr(transformers.Qwen3ForCausalLM, "forward", scale)
    assert not load_model(tiny_folder("qwen3"), FP32, "cpu").has_plain_logits


def test_a_model_that_reads_the_tokens_after_a_token_is_refused(tmp_path: Path) -> None:
    config = transformers.BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    transformers.BertLMHeadModel(config).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="BertLMHeadModel is not causal: a token changes the probabilities of those"):
        load_model(tmp_path, FP32, "cpu", fingerprint="", tokenizer=range(9))  # type: ignore[arg-type]


def save_gemma(folder: Path, tokenizer: Any, final_logit_softcapping: float | None) -> None:
    sizes = {"vocab_size": 400, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "head_dim": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 512}
    config = transformers.Gemma2Config(**sizes, **heads, final_logit_softcapping=final_logit_softcapping)
    transformers.Gemma2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
