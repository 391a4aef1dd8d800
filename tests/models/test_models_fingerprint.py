"""Fingerprints of model folders, by hand and after every kind of change."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from pan_scdg.errors import UserError
from pan_scdg.models import fingerprint
from pan_scdg.models.fingerprint import check_same, fingerprint_metadata, fingerprint_weights


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


def test_the_model_of_another_machine_is_compared(folder: Path) -> None:
    check_same(folder, fingerprint_weights, fingerprint_weights(folder))
    before = fingerprint_weights(folder)
    (folder / "config.json").write_bytes(b"other")
    with pytest.raises(UserError, match="another model: its fingerprint is .* copy the model to this machine again"):
        check_same(folder, fingerprint_weights, before)
    with pytest.raises(UserError, match="every machine needs the model at the same path"):
        check_same(folder / "none", fingerprint_weights, before)


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
        fingerprint_weights(folder, folder.parent / "digests.json")


def test_weights_are_read_once(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = fingerprint.hash_file

    def counted(path: Path) -> str:
        read.append(path.name)
        return real(path)

    monkeypatch.setattr(fingerprint, "hash_file", counted)
    memory = tmp_path / "digests.json"
    first = fingerprint_weights(folder, memory)
    assert read == ["a.safetensors", "b.safetensors", "config.json", "tokenizer.json"]
    read.clear()
    assert fingerprint_weights(folder, memory) == first
    assert read == ["config.json", "tokenizer.json"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["digests.json", "model"]


def test_weights_swapped_under_equal_size_and_time_are_noticed(folder: Path, tmp_path: Path) -> None:
    memory, weights = tmp_path / "digests.json", folder / "a.safetensors"
    before, stat = fingerprint_weights(folder, memory), weights.stat()
    other = tmp_path / "other"
    other.write_bytes(b"A.SAFETENSORS")
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    other.replace(weights)
    assert (weights.stat().st_size, weights.stat().st_mtime_ns) == (stat.st_size, stat.st_mtime_ns)
    swapped = fingerprint_weights(folder, memory)
    assert swapped != before
    assert swapped == fingerprint_weights(folder)


@pytest.mark.parametrize("content", ["", "[1]", '{"x": 1}', "\x00"])
def test_damaged_memory_is_an_empty_one(folder: Path, tmp_path: Path, content: str) -> None:
    memory = tmp_path / "digests.json"
    memory.write_text(content)
    assert fingerprint_weights(folder, memory) == fingerprint_weights(folder)
    assert len(json.loads(memory.read_text())) == 2
