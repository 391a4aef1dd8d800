"""Tokenizers of the kinds that the checkpoints of the paper have, with a few hundred tokens each."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tests.conftest import TRAINING_TEXT, VOCABULARY

LLAMA_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)


def write_qwen(folder: Path) -> None:
    """``vocab.json`` and ``merges.txt`` beside ``tokenizer.json``; no BOS, and nothing is added to a text."""
    import transformers

    model = json.loads(train_bytes([]).to_str())["model"]
    files = {"vocab.json": json.dumps(model["vocab"])}
    files["merges.txt"] = "#version: 0.2\n" + "\n".join(map(" ".join, model["merges"])) + "\n"
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    known = {"vocab_file": str(folder / "vocab.json"), "merges_file": str(folder / "merges.txt")}
    transformers.Qwen2TokenizerFast(**known).save_pretrained(folder)


def write_llama(folder: Path) -> None:
    """Byte-level BPE with a BOS in front of each text, under the generic class."""
    _write_with_bos(folder, "<|begin_of_text|>", "<|end_of_text|>", "PreTrainedTokenizerFast")


def write_ministral(folder: Path) -> None:
    """Byte-level BPE with a BOS in front of each text, under the generic class of transformers 5."""
    _write_with_bos(folder, "<s>", "</s>", "TokenizersBackend")


def _write_with_bos(folder: Path, bos: str, eos: str, named: str) -> None:
    tokenizer = train_bytes([bos, eos])
    template = processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A $B", special_tokens=[(bos, 0)])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), template])
    _save(folder, tokenizer, bos_token=bos, eos_token=eos)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tokenizer_class": named}))


def train_bytes(special: list[str]) -> tokenizers.Tokenizer:
    """Return a byte-level BPE that splits as Llama 3 does."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(LLAMA_PATTERN), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    _train(tokenizer, trainers.BpeTrainer, special_tokens=special, initial_alphabet=alphabet)
    return tokenizer


def write_linq(folder: Path) -> None:
    """BPE without pre-tokenizer, as SentencePiece has it, with BOS and EOS around each text and padding on the left."""
    special = ["<unk>", "<s>", "</s>"]
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Metaspace()
    _train(tokenizer, trainers.BpeTrainer, special_tokens=special)
    _surround(tokenizer, 1, 2)
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "</s>"}
    _save(folder, tokenizer, **names, padding_side="left")


def write_bge(folder: Path) -> None:
    """Unigram, with BOS and EOS around each text."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    _train(tokenizer, trainers.UnigramTrainer, special_tokens=special, unk_token="<unk>")
    _surround(tokenizer, 0, 2)
    names = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
    _save(folder, tokenizer, **names, pad_token="<pad>", unk_token="<unk>")


def _surround(tokenizer: tokenizers.Tokenizer, first: int, last: int) -> None:
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", first), ("</s>", last)]
    )


def _train(tokenizer: tokenizers.Tokenizer, trainer: Any, **options: Any) -> None:
    tokenizer.train_from_iterator(
        [TRAINING_TEXT], trainer(vocab_size=VOCABULARY, show_progress=False, **options), length=1
    )


def _save(folder: Path, tokenizer: tokenizers.Tokenizer, **names: Any) -> None:
    import transformers

    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **names
    ).save_pretrained(folder)


WRITERS: dict[str, Callable[[Path], None]] = {
    "Qwen3-8B-Base": write_qwen,
    "Llama-3.1-8B": write_llama,
    "Ministral-3-8B-Base-2512": write_ministral,
    "Linq-Embed-Mistral": write_linq,
    "bge-m3": write_bge,
}
"""By the name that profiles give to the checkpoint."""
