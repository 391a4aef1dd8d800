"""Compare the ids of Qwen's two tokenizers: ``python -m benchmarks.tokenizer --ranks qwen.tiktoken --texts DIR``.

The file of ranks is in the wheel of the package ``dashscope`` (``pip download --no-deps dashscope``, then
``dashscope/resources/qwen.tiktoken``). It gives ``vocab.json`` and ``merges.txt`` as Qwen's checkpoints have them;
from these, transformers 4 loads ``Qwen2Tokenizer`` (slow, Python) and ``Qwen2TokenizerFast`` (Rust).
"""

import base64
import json
import lzma
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import click
import transformers
from transformers.models.qwen2.tokenization_qwen2 import bytes_to_unicode

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
SHOWN_DIFFERENCES = 20


def write_tokenizer(ranks_file: Path, folder: Path) -> None:
    """Write the files of a Qwen2 tokenizer from ranks of byte sequences."""
    lines = [line.split() for line in ranks_file.read_bytes().splitlines() if line]
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    names = bytes_to_unicode()

    def name(token: bytes) -> str:
        return "".join(names[byte] for byte in token)

    merges = [split_token(token, ranks) for token in sorted(ranks, key=ranks.__getitem__) if len(token) > 1]
    (folder / "vocab.json").write_text(json.dumps({name(token): rank for token, rank in ranks.items()}))
    (folder / "merges.txt").write_text("".join(f"{name(left)} {name(right)}\n" for left, right in merges))
    added = {
        str(len(ranks) + place): {"content": token, "special": True, "normalized": False}
        for place, token in enumerate(SPECIAL_TOKENS)
    }
    config = {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": added, "eos_token": SPECIAL_TOKENS[0]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    click.echo(f"{len(ranks)} tokens, {len(merges)} merges")


def split_token(token: bytes, ranks: dict[bytes, int]) -> tuple[bytes, bytes]:
    """Return the two tokens whose merge gives a token: what merges of lower rank leave of its bytes."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        pairs = [ranks.get(left + right, len(ranks)) for left, right in zip(parts, parts[1:])]
        place = min(range(len(pairs)), key=pairs.__getitem__)
        if pairs[place] >= ranks[token]:
            raise ValueError(f"no merge gives the token {token!r}")
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return parts[0], parts[1]


def read_texts(folders: tuple[Path, ...], most: int) -> Iterator[str]:
    """Yield texts of at most ``most`` UTF-8 bytes in all, from each file in turn."""
    files = [
        path for folder in folders for path in sorted(folder.rglob("*")) if path.name.endswith((".txt", "l", ".xz"))
    ]
    sources = [read_file(path) for path in files if path.is_file()]
    while sources:
        for source in list(sources):
            text = next(source, None)
            if text is None:
                sources.remove(source)
                continue
            most -= len(text.encode())
            if most < 0:
                return
            yield text


def read_file(path: Path) -> Iterator[str]:
    """Yield the text of a file, or the strings in each line of a JSONL file."""
    if path.suffix == ".txt":
        yield path.read_text(encoding="utf-8", errors="replace")
        return
    opened = lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8")  # noqa: SIM115
    with opened as file:
        for line in file:
            yield from (value for value in json.loads(line).values() if isinstance(value, str) and len(value) > 80)


def draw_strings(number: int) -> list[str]:
    """Return strings that hypothesis draws: any characters, and words of the tokenizer's patterns mixed with them."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st

    pieces = st.sampled_from(
        ["'s", "'LL", "\u017f", " ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "1", "\u0661", "e\u0301", "<|im_end|>"]
    )
    texts = st.text() | st.lists(st.text(max_size=5) | pieces).map("".join)
    drawn: list[str] = []

    @settings(
        max_examples=number,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(texts)
    def collect(text: str) -> None:
        drawn.append(text)

    collect()
    return drawn[:number]


def list_characters() -> list[str]:
    """Return every character that UTF-8 can encode, alone and in words."""
    characters = [chr(code) for code in chain(range(0xD800), range(0xE000, 0x110000))]
    return [text for c in characters for text in (c, f"ab{c}cd 12 {c}{c} e")]


def compare(name: str, texts: Iterator[str] | list[str], slow: Any, fast: Any) -> None:
    """Print how many texts have the same ids, the first differences, and the seconds of each tokenizer."""
    number = size = tokens = 0
    seconds = {"slow": 0.0, "fast": 0.0}
    differences: list[str] = []
    for text in texts:
        ids = {}
        for kind, tokenizer in (("slow", slow), ("fast", fast)):
            start = time.perf_counter()
            ids[kind] = tokenizer.encode(text, add_special_tokens=False)
            seconds[kind] += time.perf_counter() - start
        number, size, tokens = number + 1, size + len(text.encode()), tokens + len(ids["slow"])
        if ids["slow"] != ids["fast"]:
            differences.append(describe_difference(ids["slow"], ids["fast"], slow.decode))
    click.echo(
        f"{name}: {number:,} texts, {size:,} bytes, {tokens:,} tokens, {len(differences):,} differ; "
        f"slow {seconds['slow']:.1f} s, fast {seconds['fast']:.1f} s"
    )
    for line in differences[:SHOWN_DIFFERENCES]:
        click.echo(f"  {line}")


def describe_difference(slow: list[int], fast: list[int], decode: Callable[[list[int]], str]) -> str:
    """Return the first place where two lists of ids differ."""
    place = next((i for i, (a, b) in enumerate(zip(slow, fast)) if a != b), min(len(slow), len(fast)))
    parts = [ids[max(0, place - 2) : place + 4] for ids in (slow, fast)]
    return f"at token {place}: slow {parts[0]} {decode(parts[0])!a}, fast {parts[1]} {decode(parts[1])!a}"


@click.command()
@click.option("--ranks", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--texts", type=click.Path(path_type=Path, exists=True), multiple=True, required=True)
@click.option("--megabytes", default=50)
@click.option("--strings", default=10_000)
@click.option("--characters", is_flag=True, help="Compare all characters of Unicode too.")
def main(ranks: Path, texts: tuple[Path, ...], megabytes: int, strings: int, characters: bool) -> None:
    """Compare both tokenizers on texts, on drawn strings and on all characters."""
    click.echo(f"transformers {transformers.__version__}")
    with tempfile.TemporaryDirectory() as name:
        write_tokenizer(ranks, Path(name))
        load: Any = transformers.AutoTokenizer.from_pretrained
        slow, fast = (load(name, use_fast=kind, local_files_only=True) for kind in (False, True))
    for tokenizer in (slow, fast):
        tokenizer.model_max_length = 10**9
    click.echo(f"slow: {type(slow).__name__}, fast: {type(fast).__name__}")
    compare("drawn strings", draw_strings(strings), slow, fast)
    if characters:
        compare("characters", list_characters(), slow, fast)
    compare("texts", read_texts(texts, megabytes * 1_000_000), slow, fast)


if __name__ == "__main__":
    main()
