"""Stand-ins for the checkpoints of the paper: their architecture, config fields and kind of tokenizer, tiny width.

``NAME.json`` has the fields of the published ``config.json``, copied. Widths and numbers of layers and heads are
made small; the tokenizer knows a few hundred tokens of the vocabulary, whose size is kept. Weights are random.
"""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tomlkit

from benchmarks.architectures import SMALL
from pan_scdg.models.catalogue import CATALOGUE
from pan_scdg.profile import find_profile, load_profile
from tests.hub_cache import add_snapshot, name_main
from tests.stand_ins.tokenizer_files import WRITERS

HERE = Path(__file__).parent
FEW_TOKENS = {"vocab_size": 512}
"""Of a config and of a profile's model, for tests of other things."""
POOLING = {"bge-m3": "cls", "Linq-Embed-Mistral": "lasttoken"}
"""Of the encoders."""
COMMIT = "5" * 40
"""Of every stand-in in a Hugging Face cache."""
Config = dict[str, Any]


def read_small_config(name: str) -> Config:
    """Return the published config with small numbers in the place of large ones."""
    config: Config = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    for part in (config, *(value for value in config.values() if isinstance(value, dict))):
        part.update({field: SMALL[field] for field in SMALL.keys() & part.keys()})
    return config


def write_checkpoint(name: str, folder: Path, **changes: Any) -> Path:
    """Write the stand-in for a language model or an encoder into a new folder, and return it.

    Args:
        name: the checkpoint's.
        folder: where to.
        changes: fields of the config that differ, such as ``FEW_TOKENS`` for long texts.
    """
    folder.mkdir(parents=True)
    config = read_small_config(name) | changes
    _draw_model(config).save_pretrained(folder)
    WRITERS[name](folder)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    if name in POOLING:
        _add_modules(folder, POOLING[name])
    return folder


def _draw_model(config: Config) -> Any:
    import torch
    import transformers

    family: Any = getattr(transformers, config["architectures"][0])
    fields = {key: value for key, value in config.items() if key not in ("torch_dtype", "dtype")}
    text = config.get("text_config", {})
    if text.get("model_type") == "ministral3" and transformers.__version__ < "5":
        # which has the same weights under another name
        fields["text_config"] = {**text, "model_type": "mistral", "rope_parameters": None}
    torch.manual_seed(0)
    dtype = getattr(torch, config.get("torch_dtype") or config["dtype"])
    return family._from_config(family.config_class(**fields), dtype=dtype)


def _add_modules(folder: Path, pooling: str) -> None:
    """Make the folder that of a sentence-transformers model with normalised vectors."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Normalize, Pooling, Transformer

    plain = folder.with_name(f"{folder.name}-plain")
    folder.rename(plain)
    body = Transformer(str(plain), max_seq_length=4096)
    modules = [body, Pooling(SMALL["hidden_size"], pooling_mode=pooling), Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder))
    shutil.copy(plain / "config.json", folder)
    shutil.rmtree(plain)


def write_profile(name: str, path: Path, **tables: Config) -> Path:
    """Write a bundled profile for any CPU: other arithmetic, no probes, and other settings in tables that it has."""
    document: Any = tomlkit.parse(find_profile(name).read_text(encoding="utf-8"))
    if "model" in document:
        document["model"].update({"attention": "sdpa", "dtype": "float32"})  # bfloat16 is slow on most
        document["model"].pop("probes", None)  # ids of the true vocabulary
    for table in tables.keys() & document.keys():
        document[table].update(tables[table])
    path.write_text(tomlkit.dumps(document), encoding="utf-8")
    return path


def list_repositories(profile: str) -> dict[str, str]:
    """Return the models that a bundled profile needs: the name of each and its repository."""
    names = load_profile(profile).list_models()
    return {name: CATALOGUE[name].repository for name in names if name in CATALOGUE}


def write_hub(folder: Path, profiles: Iterable[str]) -> Path:
    """Write a Hugging Face cache with stand-ins for all models of bundled profiles, and return it."""
    needed = {name: place for profile in profiles for name, place in list_repositories(profile).items()}
    for name, repository in needed.items():
        checkpoint = write_checkpoint(name, folder.parent / f"{folder.name}-{name}")
        name_main(add_snapshot(folder, repository, COMMIT, checkpoint), COMMIT)
    return folder
