"""Check the files of sentence-transformers models before the library reads them.

The library imports any class that ``modules.json`` names, passes on arguments from other files and unpickles weights.
So modules and fields are permitted by name here: those of BGE-M3, Linq-Embed-Mistral, gte-Qwen2, Qwen3-Embedding and
MiniLM, and what versions 2 to 5 of the library write for such models.
"""

import importlib.util
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.models.catalogue import CONFIG, PACKAGED
from pan_scdg.models.checkpoint import check_entries, read_config, read_json

MODULES = "modules.json"
"""The file that every folder of an embedding model has."""
SETTINGS = "config_sentence_transformers.json"
BASE = "base.json"
"""The file that names the installed model whose embeddings a model has: only its other weights were trained further."""
TRANSFORMER_SETTINGS = "sentence_*_config.json"
"""Pattern of the settings of the module with the language model: ``bert``, and six former names."""
_MODULE_KINDS = {
    f"sentence_transformers.{path}": kind
    for kind, module in {
        "Transformer": "base.modules.transformer",
        "Pooling": "sentence_transformer.modules.pooling",
        "Normalize": "sentence_transformer.modules.normalize",
    }.items()
    for path in (f"models.{kind}", f"models.{kind}.{kind}", f"{module}.{kind}")
}
"""The permitted modules: each name of a class in some version of the library, and its kind."""
_MODULE_FIELDS = {"idx", "name", "path", "type"}
_SETTINGS_FIELDS = {
    *("__version__", "model_type", "prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim"),
}
_TRANSFORMER_FIELDS = {
    *("max_seq_length", "do_lower_case", "transformer_task", "modality_config", "module_output_name", "unpad_inputs"),
    "processing_kwargs",
}
_POOLING_FIELDS = {
    *("word_embedding_dimension", "embedding_dimension", "include_prompt", "pooling_mode", "pooling_mode_cls_token"),
    *("pooling_mode_max_tokens", "pooling_mode_mean_tokens", "pooling_mode_mean_sqrt_len_tokens"),
    *("pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"),
}
_FIXED_VALUES = {
    "model_type": ("SentenceTransformer",),
    "transformer_task": ("feature-extraction",),
    "module_output_name": ("token_embeddings",),
    "method": ("forward",),
    "method_output_name": ("last_hidden_state",),
    "processing_kwargs": ({},),
}
"""The only values of fields that name what the library calls."""


class Base(NamedTuple):
    """The installed model that a model was trained from and has its embeddings from."""

    name: str
    folder: Path
    fingerprint: Any
    """That of the weights with which it was trained."""


def find_encoder_folder(name_or_folder: str | Path) -> Path:
    """Return the folder of an embedding model: that of an installed package for a name in ``PACKAGED``.

    Raises:
        UserError: the package is not installed, or the folder is not that of a sentence-transformers model.
    """
    folder, package = Path(name_or_folder), PACKAGED.get(str(name_or_folder))
    if package is not None:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise UserError(f"the package {name_or_folder} is not installed", f"run `pip install {name_or_folder}`")
        folder = Path(spec.origin).parent / "model"
    if not (folder / MODULES).is_file():
        raise UserError(
            f"the folder of the embedding model has no {MODULES}",
            "copy the whole folder of a sentence-transformers model there, or choose another profile",
            folder,
        )
    return folder


def check_encoder(folder: Path) -> tuple[Path, Base | None]:
    """Return the folder of the transformer, and its base, if a model has only known modules, safetensors and no code.

    Raises:
        UserError: it has others, or a file is missing, not a regular file, or has an unknown field.
    """
    check_entries(folder, recursive=True)
    if code := next(folder.rglob("*.py"), None):
        remedy = "choose a model made of sentence-transformers' own modules, or a folder without Python files"
        raise UserError("the model contains code, which this program never runs", remedy, code)
    modules = _read_modules(folder / MODULES)
    if [kind for kind, _ in modules if kind == "Transformer"] != [modules[0][0]]:
        raise UserError("not a Transformer followed by other modules", "choose another model", folder / MODULES)
    if (folder / SETTINGS).exists():
        _check_fields(read_json(folder / SETTINGS), _SETTINGS_FIELDS, folder / SETTINGS)
    for kind, inner in modules:
        if kind == "Transformer":
            for path in inner.glob(TRANSFORMER_SETTINGS):
                _check_fields(read_json(path), _TRANSFORMER_FIELDS, path)
            read_config(inner, encoder=True)
        elif kind == "Pooling":
            _check_fields(read_json(inner / CONFIG), _POOLING_FIELDS, inner / CONFIG)
    transformer = modules[0][1]
    return transformer, _find_base(folder, transformer)


def _read_modules(path: Path) -> list[tuple[str, Path]]:
    """Return the kind and the folder of each module."""
    modules = read_json(path)
    if not isinstance(modules, list) or not modules:
        raise UserError("not a list of modules", "choose another model", path)
    checked = []
    for module in modules:
        _check_fields(module, _MODULE_FIELDS, path)
        kind, name = module.get("type"), module.get("path")
        if not isinstance(kind, str) or kind not in _MODULE_KINDS:
            permitted = ", ".join(dict.fromkeys(_MODULE_KINDS.values()))
            what = f"{str(kind)[:80]!r} is code, which this program never runs"
            raise UserError(what, f"permitted are {permitted}", path)
        parts = PurePosixPath(name).parts if isinstance(name, str) else ("..",)
        if any(part.startswith((".", "/")) or "\0" in part for part in parts):
            what = f"the path {str(name)[:80]!r} leads out of its folder or is hidden"
            raise UserError(what, "choose another model", path)
        checked.append((_MODULE_KINDS[kind], path.parent.joinpath(*parts)))
    return checked


def _check_fields(value: Any, permitted: set[str], path: Path) -> None:
    """Raise UserError unless an object has only permitted fields, and fixed values at every depth."""
    if not isinstance(value, dict):
        raise UserError("is not a JSON object", "copy the model's folder again", path)
    for field in value.keys() - permitted:
        raise UserError(f"the field {field[:80]!r} is not permitted", "choose another model", path)
    objects = [value]
    while objects:
        for field, inner in objects.pop().items():
            if field in _FIXED_VALUES and inner not in _FIXED_VALUES[field]:
                raise UserError(f"the {field} {str(inner)[:80]!r} is not permitted", "choose another model", path)
            if isinstance(inner, dict):
                objects.append(inner)


def _find_base(folder: Path, transformer: Path) -> Base | None:
    """Return the model whose embeddings a model needs; None: it has all weights itself.

    Raises:
        UserError: the file that names it is damaged, or it is not installed or of another kind.
    """
    if not (path := folder / BASE).exists():
        return None
    fields = read_json(path)
    _check_fields(fields, {"model", "sha256"}, path)
    if not isinstance(name := fields.get("model"), str) or name not in PACKAGED:
        raise UserError(f"names a model other than {', '.join(PACKAGED)}", "copy the model's folder again", path)
    base = find_encoder_folder(name)
    if read_json(transformer / CONFIG).get("model_type") != read_json(base / CONFIG).get("model_type"):
        raise UserError(f"the model is of another kind than {name}", "copy the model's folder again", path)
    return Base(name, base, fields.get("sha256"))
