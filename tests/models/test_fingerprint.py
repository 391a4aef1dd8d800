"""Fingerprints of model folders, by hand and after every kind of change."""

import hashlib
from pathlib import Path

import pytest

from pan_scdg.errors import UserError
from pan_scdg.models.fingerprint import (
    fingerprint_folder,
    fingerprint_metadata,
    fingerprint_weights,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder that is not a real checkpoint: only bytes and names count."""
    model = tmp_path / "model"
    model.mkdir()
    for name in ("a.safetensors", "b.safetensors", "config.json", "tokenizer.json", "README.md"):
        (model / name).write_bytes(name.encode())
    return model


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_by_hand(folder: Path) -> None:
    names = ("a.safetensors", "b.safetensors", "config.json", "tokenizer.json")
    assert fingerprint_weights(folder) == sha("".join(f"{sha(n)}  {n}\n" for n in names))
    assert fingerprint_metadata(folder) == {n: sha(n) for n in names[2:]}


@pytest.mark.parametrize(
    "name",
    [
        "a.safetensors",
        "config.json",
        "tokenizer_config.json",
        "tokenizer.json",
        "tokenizer.model",
        "tekken.json",
        "model.safetensors.index.json",
        "vocab.json",
        "merges.txt",
        "added_tokens.json",
        "special_tokens_map.json",
    ],
)
def test_every_byte_counts(folder: Path, name: str) -> None:
    (folder / name).write_bytes(name.encode())
    before = fingerprint_weights(folder)
    (folder / name).write_bytes(name.upper().encode())
    assert fingerprint_weights(folder) != before


def test_names_count_and_other_files_do_not(folder: Path) -> None:
    before = fingerprint_weights(folder)
    (folder / "README.md").write_text("new")
    assert fingerprint_weights(folder) == before
    (folder / "b.safetensors").rename(folder / "c.safetensors")
    assert fingerprint_weights(folder) != before


def test_no_weights_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no weights"):
        fingerprint_weights(tmp_path)


def test_unreadable_weights_are_an_error(folder: Path) -> None:
    (folder / "c.safetensors").symlink_to(folder / "gone")
    with pytest.raises(UserError, match="cannot be read"):
        fingerprint_weights(folder)


def test_a_folder_counts_names_and_bytes_of_all_visible_files(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    weights = tmp_path / "sub" / "model.safetensors"
    weights.write_bytes(b"one")
    before = fingerprint_folder(tmp_path)
    (tmp_path / ".cache").write_text("hidden")
    assert fingerprint_folder(tmp_path) == before
    weights.write_bytes(b"two")
    assert fingerprint_folder(tmp_path) != before
    weights.write_bytes(b"one")
    assert fingerprint_folder(tmp_path) == before
    weights.rename(tmp_path / "sub" / "other.safetensors")
    assert fingerprint_folder(tmp_path) != before
