"""Models of other families through the command line: the tokens that are scored, and their log-probabilities."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.architectures import save_model
from tests.conftest import TRAINING_TEXT

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

END = "<|endoftext|>"
SOURCE, TARGET = TRAINING_TEXT[:130], "Nobody said that the tide turned before noon; it's lost."
GENERIC = "PreTrainedTokenizerFast"
NAMES = {"gpt_neox": "GPTNeoXTokenizer", "bloom": GENERIC, "gemma3_text": GENERIC}


def write_checkpoint(architecture: str, folder: Path, tokenizer: Any = None, positions: int = 2048) -> Any:
    """Write a random model and its tokenizer, None: one like GPT-2's, which adds nothing to a text; return it."""
    tokenizer = train_tokenizer() if tokenizer is None else tokenizer
    save_model(architecture, folder, vocab_size=400, max_position_embeddings=positions)
    tokenizer.save(str(folder / "tokenizer.json"))
    # the files that GPT-2 is published with name no class and no special token
    config = {"tokenizer_class": NAMES[architecture], "eos_token": END} if architecture in NAMES else {}
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"model_max_length": 1024}))
    return tokenizer


def train_tokenizer() -> Any:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    train = tokenizers.trainers.BpeTrainer(vocab_size=399, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([TRAINING_TEXT], train)
    tokenizer.add_special_tokens([END])
    return tokenizer


def make_merging_tokenizer() -> Any:
    """Return a tokenizer that splits no text first: a token can begin in the source and end in the target."""
    merges = [("Ċ", "N"), ("ĊN", "o"), ("o", "o")]
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*alphabet, *map("".join, merges), END])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return tokenizer


def compute_plainly(folder: Path, ids: list[int], count: int) -> npt.NDArray[np.float64]:
    """Return the log-probabilities of the last ``count`` ids by one call of the whole model."""
    load = transformers.AutoModelForCausalLM.from_pretrained
    model = load(folder, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.inference_mode():
        log_probs = model(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)
    return np.array([log_probs[at - 1, ids[at]].item() for at in range(len(ids) - count, len(ids))])


@pytest.mark.parametrize("architecture", ["gpt2", "gpt_neox", "gemma3_text", "bloom", "mamba"])
def test_tokens_have_the_log_probabilities_of_plain_passes(
    architecture: str, cli: Callable[..., Any], tmp_path: Path
) -> None:
    tokenizer = write_checkpoint(architecture, folder := tmp_path / "model")
    for name, text in (("suspicious.txt", TARGET), ("source.txt", SOURCE)):
        (tmp_path / name).write_text(text)
    texts = (tmp_path / "suspicious.txt", tmp_path / "source.txt")
    done = cli("score", *texts, "--profile", "scdg-mini", "--model", folder, "--device", "cpu", "--tokens", "-")
    assert done.code == 0, done.err
    assert ("note: inputs are computed one at a time: " in done.err) == (architecture in ("bloom", "mamba"))
    lines = [json.loads(line) for line in done.out.splitlines()][1:]
    alone, both = (tokenizer.encode(text).ids for text in (TARGET, f"{SOURCE}\n\n{TARGET}"))
    # no BOS: the first token of the target is context
    assert [line["token_id"] for line in lines] == alone[1:] == both[1 - len(alone) :]
    for name, ids in (("unconditional", alone), ("conditional", both)):
        values = compute_plainly(folder, ids, len(lines))
        np.testing.assert_allclose([line[name] for line in lines], values, atol=2e-5)


def test_a_text_cannot_spell_a_special_token(cli: Callable[..., Any], tmp_path: Path) -> None:
    tokenizer = write_checkpoint("gpt2", folder := tmp_path / "model")
    (tmp_path / "t.txt").write_text(f"Salt {END} and nets.")
    (tmp_path / "s.txt").write_text(SOURCE)
    where = ("--profile", "scdg-mini", "--model", folder, "--device", "cpu", "--tokens", "-")
    done = cli("score", tmp_path / "t.txt", tmp_path / "s.txt", *where)
    assert done.code == 0, done.err
    ids = [json.loads(line)["token_id"] for line in done.out.splitlines()[1:]]
    assert tokenizer.token_to_id(END) not in ids
    assert tokenizer.decode(ids, skip_special_tokens=False).endswith(f" {END} and nets.")


@pytest.mark.parametrize(
    ("make", "positions", "what"),
    [
        (make_merging_tokenizer, 2048, "is tokenised differently from the target alone"),
        (train_tokenizer, 1024, "gains.limit is 1536 tokens, but model reads at most 1024. Lower gains.limit"),
    ],
)
def test_what_cannot_be_scored_is_one_line(
    make: Callable[[], Any], positions: int, what: str, cli: Callable[..., Any], tmp_path: Path
) -> None:
    write_checkpoint("gpt2", folder := tmp_path / "model", make(), positions)
    (tmp_path / "t.txt").write_text("Noon came, and the tide turned.")
    (tmp_path / "s.txt").write_text(SOURCE)
    done = cli("score", tmp_path / "t.txt", tmp_path / "s.txt", "--profile", "scdg-mini", "--model", folder)
    assert (done.code, done.out) == (2, "")
    errors = [line for line in done.err.splitlines() if line.startswith("error")]
    assert len(errors) == 1
    assert what in errors[0]


def test_a_run_says_and_records_that_inputs_are_computed_one_at_a_time(
    cli: Callable[..., Any], pairs_input: Path, tmp_path: Path
) -> None:
    write_checkpoint("mamba", folder := tmp_path / "model")
    where = ("--input", pairs_input, "--profile", "scdg-mini", "--model", folder, "--scores-only", "--limit", 1)
    done = cli("run", *where, "--output", tmp_path / "out")
    assert done.code == 0, done.err
    reason = "model does not hand layouts of rows to its attention and cannot be packed"
    assert done.err.count(f"note: inputs are computed one at a time: {reason}") == 1
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    assert (job["engine"], job["incidents"]) == ("reference", [f"inputs were computed one at a time: {reason}"])
    assert "already complete" in cli("run", *where, "--output", tmp_path / "out").err
    done = cli("run", *where, "--output", tmp_path / "packed", "--engine", "packed")
    assert done.code == 2
    assert f"error: {reason}. Use the engine reference" in done.err
    assert not (tmp_path / "packed" / "job.json").exists()
