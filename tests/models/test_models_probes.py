"""Probes: texts whose token ids a profile records."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.errors import UserError
from pan_scdg.models.load import check_probes, load_tokenizer
from pan_scdg.profile import ModelSettings

TEXTS = ("The tide turned", "\n\n", "17.5 Übermut")


def settings(probes: dict[str, tuple[int, ...]]) -> ModelSettings:
    return ModelSettings(name="tiny", dtype="float32", probes=probes)


@pytest.fixture
def ids(tiny_tokenizer: Callable[..., Any]) -> dict[str, tuple[int, ...]]:
    """Return the ids from the tokenizers library itself, without transformers."""
    backend = tiny_tokenizer().backend_tokenizer
    return {text: tuple(backend.encode(text, add_special_tokens=False).ids) for text in TEXTS}


def test_the_tokenizer_that_was_meant_is_loaded(
    tiny_folder: Callable[[str], Path], ids: dict[str, tuple[int, ...]]
) -> None:
    tokenizer = load_tokenizer(tiny_folder("qwen3"), settings(ids))
    assert tokenizer.encode(TEXTS[0], add_special_tokens=False) == list(ids[TEXTS[0]])
    assert tokenizer.encode(TEXTS[0], add_special_tokens=True) != list(ids[TEXTS[0]]), "probes have no special tokens"


def test_another_tokenizer_is_refused_with_text_and_ids(
    tiny_folder: Callable[[str], Path], ids: dict[str, tuple[int, ...]]
) -> None:
    found = list(ids["\n\n"])
    with pytest.raises(UserError) as e:
        load_tokenizer(tiny_folder("qwen3"), settings(ids | {"\n\n": (7, 8)}))
    assert e.value.what == f"the tokenizer encodes {chr(10) * 2!r} as {found}, but the profile expects [7, 8]"
    assert e.value.where == tiny_folder("qwen3")


def test_fewer_ids_than_expected_are_others_too(
    tiny_tokenizer: Callable[..., Any], ids: dict[str, tuple[int, ...]], tmp_path: Path
) -> None:
    check_probes(tiny_tokenizer(), ids, tmp_path)
    with pytest.raises(UserError, match="the profile expects"):
        check_probes(tiny_tokenizer(), {TEXTS[0]: (*ids[TEXTS[0]], 5)}, tmp_path)


def test_a_generic_tokenizer_is_not_replaced_by_that_of_the_model_family(
    tiny_folder: Callable[[str], Path], ids: dict[str, tuple[int, ...]]
) -> None:
    """transformers 5 would take Qwen2's class, which has a pre-tokenizer and a padding token of its own."""
    tokenizer: Any = load_tokenizer(tiny_folder("qwen2"), settings(ids))
    assert len(tokenizer) == 400
    spelt = tokenizer.convert_ids_to_tokens(tokenizer.encode("salt.\n\nNobody", add_special_tokens=False))
    assert spelt.count("Ċ") == 2, "every newline is a token of its own; Qwen2's pre-tokenizer joins them"
