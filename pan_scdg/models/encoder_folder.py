"""Check the folder of a sentence-transformers model before the library reads it: that would run what a folder names.

The library imports any class that ``modules.json`` names, calls any function of torch that a ``Dense`` layer names,
and unpickles weights. So every file that it reads has a schema here: what BGE-M3, Linq-Embed-Mistral, gte-Qwen2,
Qwen3-Embedding and MiniLM hold, and what versions 2 to 5 of the library write for such models.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from pan_scdg.errors import UserError
from pan_scdg.models.files import NAME, check_config, check_entries, read_json, read_object
from pan_scdg.own_files import check_inner_name

MODULES = "modules.json"
SETTINGS = "config_sentence_transformers.json"
TRANSFORMER = "sentence_*_config.json"
"""The settings of the module with the language model: ``bert``, and six former names."""
WEIGHTS = "model.safetensors"
PATHS = {
    "Transformer": "base.modules.transformer",
    "Dense": "base.modules.dense",
    "Pooling": "sentence_transformer.modules.pooling",
    "Normalize": "sentence_transformer.modules.normalize",
}
TYPES = {
    f"sentence_transformers.{path}": kind
    for kind, place in PATHS.items()
    for path in (f"models.{kind}", f"models.{kind}.{kind}", f"{place}.{kind}")
}
"""The modules that are permitted: each name of a class in some version of the library, and its kind."""
ACTIVATIONS = {
    f"torch.nn.{place}{name}"
    for file, names in {"linear": ("Identity",), "activation": ("Tanh", "ReLU", "GELU", "SiLU", "Sigmoid")}.items()
    for name in names
    for place in (f"modules.{file}.", "")
}
"""What a ``Dense`` layer may call: classes without arguments, under the two names of each."""
Mode = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]


def _kind_of(name: object) -> str:
    if not isinstance(name, str) or name not in TYPES:
        raise ValueError(f"{name!r} is code of its own, which is never run; permitted are {', '.join(PATHS)}")
    return TYPES[name]


def _check_path(path: object) -> object:
    return check_inner_name(path) if isinstance(path, str) and path else path


def _check_activation(name: object) -> object:
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise ValueError(f"{name!r} is code of its own, which is never run")
    return name


class _Settings(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)


class _Module(_Settings):
    """An entry of ``modules.json``."""

    idx: int
    name: str
    path: Annotated[str, BeforeValidator(_check_path), Field(max_length=NAME)]
    type: Annotated[str, BeforeValidator(_kind_of)]
    """Its kind, whatever the class is called in this version of the library."""


class _Output(_Settings):
    """How the language model is called, and what is taken of its output."""

    method: Literal["forward"]
    method_output_name: Literal["last_hidden_state"]
    format: Literal["structured", "flat", "auto"] = "auto"


class _Transformer(_Settings):
    max_seq_length: int | None = None
    do_lower_case: bool = False
    transformer_task: Literal["feature-extraction"] = "feature-extraction"
    modality_config: dict[Literal["text", "message"], _Output] = {}
    module_output_name: Literal["token_embeddings"] = "token_embeddings"
    processing_kwargs: dict[str, None] = Field(default={}, max_length=0)
    unpad_inputs: bool | None = None


class _Pooling(_Settings):
    word_embedding_dimension: int | None = None
    embedding_dimension: int | None = None
    pooling_mode: Mode | list[Mode] = "mean"
    pooling_mode_cls_token: bool = False
    pooling_mode_max_tokens: bool = False
    pooling_mode_mean_tokens: bool = False
    pooling_mode_mean_sqrt_len_tokens: bool = False
    pooling_mode_weightedmean_tokens: bool = False
    pooling_mode_lasttoken: bool = False
    include_prompt: bool = True


class _Dense(_Settings):
    in_features: int
    out_features: int
    bias: bool = True
    activation_function: Annotated[str, BeforeValidator(_check_activation)]
    module_input_name: Literal["sentence_embedding"] = "sentence_embedding"
    module_output_name: Literal["sentence_embedding"] | None = None


class _Model(_Settings):
    """``config_sentence_transformers.json``."""

    versions: dict[str, str] = Field(default={}, alias="__version__")
    model_type: Literal["SentenceTransformer"] = "SentenceTransformer"
    prompts: dict[str, str] = {}
    default_prompt_name: str | None = None
    similarity_fn_name: Literal["cosine", "dot", "euclidean", "manhattan"] | None = None
    truncate_dim: int | None = None


Found = TypeVar("Found")


def check_encoder(folder: Path) -> None:
    """Raise UserError unless a folder holds a model of known modules, with weights in safetensors and without code.

    Raises:
        UserError: also where a file is missing, is no regular file, or holds a field that is not known here.
    """
    check_entries(folder, within=True)
    if code := next(folder.rglob("*.py"), None):
        remedy = "choose a model made of sentence-transformers' own modules, or a folder without Python files"
        raise UserError("the model brings code of its own, which is never run", remedy, code)
    modules = _checked(folder / MODULES, TypeAdapter(list[_Module]))
    if not modules or modules[0].type != "Transformer" or "Transformer" in (module.type for module in modules[1:]):
        raise UserError("not one Transformer with modules behind it", "choose another model", folder / MODULES)
    if (folder / SETTINGS).exists():
        _checked(folder / SETTINGS, TypeAdapter(_Model))
    for module in modules:
        _check_module(folder / module.path, module.type)


def _check_module(folder: Path, kind: str) -> None:
    if kind == "Transformer":
        _check_transformer(folder)
    elif kind == "Pooling":
        _checked(folder / "config.json", TypeAdapter(_Pooling))
    elif kind == "Dense":
        _checked(folder / "config.json", TypeAdapter(_Dense))
        _need_weights(folder)


def _check_transformer(folder: Path) -> None:
    for path in folder.glob(TRANSFORMER):
        _checked(path, TypeAdapter(_Transformer))
    if (folder / "adapter_config.json").exists():
        raise UserError("this is an adapter, not a whole model", "merge it into its base model first", folder)
    check_config(read_object(folder / "config.json"), folder / "config.json", auto_map=True)
    for path in _beside(folder):
        check_config(read_object(path), path, auto_map=True)
    _need_weights(folder)


def _beside(folder: Path) -> Iterator[Path]:
    """Yield the other files from which the library learns which classes to take."""
    names = ("tokenizer_config.json", "processor_config.json", "preprocessor_config.json")
    yield from (folder / name for name in names if (folder / name).exists())


def _need_weights(folder: Path) -> None:
    """Raise UserError unless there are safetensors, all in this folder: what else the library reads is pickled."""
    index = folder / f"{WEIGHTS}.index.json"
    if (folder / WEIGHTS).is_file():
        return
    if not index.is_file():
        what = "there are no weights in safetensors format, and pickled ones are never read"
        raise UserError(what, "take a revision of the model with safetensors, or convert it", folder)
    named = read_object(index).get("weight_map")
    names = set(named.values()) if isinstance(named, dict) and all(isinstance(n, str) for n in named.values()) else {""}
    for name in sorted(names):
        if Path(name).name != name or not name.endswith(".safetensors") or len(name) > NAME:
            raise UserError(f"names {name[:80]!r}, no safetensors beside it", "replace the damaged file", index)


def _checked(path: Path, schema: TypeAdapter[Found]) -> Found:
    try:
        return schema.validate_python(read_json(path))
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part)[:80] for part in first["loc"])
        what = first["msg"].removeprefix("Value error, ")
        remedy = "choose a model made of sentence-transformers' own modules, or copy its folder again"
        raise UserError(f"{place}: {what}" if place else what, remedy, path) from e
