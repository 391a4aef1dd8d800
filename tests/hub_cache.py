"""Make a Hugging Face cache on disk, as the library leaves one behind and as TIRA mounts it."""

import json
from pathlib import Path


def write_encoder(folder: Path) -> Path:
    """Write the folder of an embedding model that passes every check but has no weights, and return it."""
    folder.mkdir(parents=True)
    module = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
    (folder / "modules.json").write_text(json.dumps([module]))
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").touch()
    return folder


def add_snapshot(hub: Path, repository: str, revision: str, source: Path | None = None) -> Path:
    """A snapshot with the files of ``source``, each a link to its blob.

    Args:
        hub: the cache; other snapshots of the repository may be there.
        repository: ``org/name``.
        revision: the snapshot's commit; the first letter keeps its blobs apart from those of another.
        source: a folder; None: an empty ``config.json`` and a file without weights.
    """
    root = hub / f"models--{repository.replace('/', '--')}"
    snapshot = root / "snapshots" / revision
    snapshot.mkdir(parents=True)
    (root / "blobs").mkdir(exist_ok=True)
    files = {p.relative_to(source): p.read_bytes() for p in source.rglob("*") if p.is_file()} if source else {}
    for name, data in (files or {Path("config.json"): b"{}", Path("model.safetensors"): b""}).items():
        blob = root / "blobs" / f"{revision[0]}-{'-'.join(name.parts)}"
        blob.write_bytes(data)
        (snapshot / name).parent.mkdir(exist_ok=True)
        (snapshot / name).symlink_to(Path(*[".."] * (1 + len(name.parts)), "blobs", blob.name))
    return snapshot


def name_main(snapshot: Path, revision: str) -> None:
    """Let ``refs/main`` of the snapshot's repository say ``revision``."""
    refs = snapshot.parents[1] / "refs"
    refs.mkdir(exist_ok=True)
    (refs / "main").write_text(revision)
