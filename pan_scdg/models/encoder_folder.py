"""Check the folder of a sentence-transformers model before the library reads it and runs what the folder names.

The library imports any class that ``modules.json`` names, calls any function of torch that a ``Dense`` layer names,
and unpickles weights. So every file that it reads has a schema here: what BGE-M3, Linq-Embed-Mistral, gte-Qwen2,
Qwen3-Embedding and MiniLM contain, and what versions 2 to 5 of the library write for such models.
"""

from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from pan_scdg.errors import UserError
from pan_scdg.models.config import CONFIG, read_config
from pan_scdg.models.files import LONGEST_NAME, check_entries, describe_mismatch, read_json
from pan_scdg.models.weights import list_weight_files
from pan_scdg.own_files import OwnRecord, check_inner_name

MODULES = "modules.json"
SETTINGS = "config_sentence_transformers.json"
TRANSFORMER_SETTINGS = "sentence_*_config.json"
"""Pattern of the settings of the module with the language model: ``bert``, and six former names."""
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
"""The permitted modules: each name of a class in some version of the library, and its kind."""
ACTIVATIONS = {
    f"torch.nn.{place}{name}"
    for file, names in {"linear": ("Identity",), "activation": ("Tanh", "ReLU", "GELU", "SiLU", "Sigmoid")}.items()
    for name in names
    for place in (f"modules.{file}.", "")
}
"""The functions that a ``Dense`` layer may call: classes without arguments, under the two names of each."""
Mode = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
Content = TypeVar("Content")


def _check_type(name: object) -> str:
    if not isinstance(name, str) or name not in TYPES:
        raise ValueError(f"{name!r} is code of its own, which is never run; permitted are {', '.join(PATHS)}")
    return TYPES[name]


def _check_path(path: object) -> object:
    return check_inner_name(path) if isinstance(path, str) and path else path


def _check_activation(name: object) -> object:
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise ValueError(f"{name!r} is code of its own, which is never run")
    return name


class _Module(OwnRecord):
    """An entry of ``modules.json``."""

    idx: int
    name: str
    path: Annotated[str, BeforeValidator(_check_path), Field(max_length=LONGEST_NAME)]
    type: Annotated[str, BeforeValidator(_check_type)]
    """Its kind, whatever the class is called in this version of the library."""


class _Output(OwnRecord):
    """The method of the language model that is called, and the part of its output that is used."""

    method: Literal["forward"]
    method_output_name: Literal["last_hidden_state"]
    format: Literal["structured", "flat", "auto"] = "auto"


class _Transformer(OwnRecord):
    max_seq_length: int | None = None
    do_lower_case: bool = False
    transformer_task: Literal["feature-extraction"] = "feature-extraction"
    modality_config: dict[Literal["text", "message"], _Output] = Field(default={})
    module_output_name: Literal["token_embeddings"] = "token_embeddings"
    processing_kwargs: dict[str, None] = Field(default={}, max_length=0)
    unpad_inputs: bool | None = None


class _Pooling(OwnRecord):
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


class _Dense(OwnRecord):
    in_features: int
    out_features: int
    bias: bool = True
    activation_function: Annotated[str, BeforeValidator(_check_activation)]
    module_input_name: Literal["sentence_embedding"] = "sentence_embedding"
    module_output_name: Literal["sentence_embedding"] | None = None


class _Model(OwnRecord):
    """``config_sentence_transformers.json``."""

    versions: dict[str, str] = Field(default={}, alias="__version__")
    model_type: Literal["SentenceTransformer"] = "SentenceTransformer"
    prompts: dict[str, str] = Field(default={})
    default_prompt_name: str | None = None
    similarity_fn_name: Literal["cosine", "dot", "euclidean", "manhattan"] | None = None
    truncate_dim: int | None = None


def check_encoder(folder: Path) -> Path:
    """Return the folder of the transformer if a model has only known modules, safetensors and no code.

    Raises:
        UserError: it has others, or a file is missing, not a regular file, or holds an unknown field.
    """
    check_entries(folder, recursive=True)
    if code := next(folder.rglob("*.py"), None):
        remedy = "choose a model made of sentence-transformers' own modules, or a folder without Python files"
        raise UserError("the model contains code of its own, which is never run", remedy, code)
    modules = _read(folder / MODULES, TypeAdapter(list[_Module]))
    if not modules or modules[0].type != "Transformer" or "Transformer" in (module.type for module in modules[1:]):
        what = "not a Transformer followed by other modules"
        raise UserError(what, "choose another model", folder / MODULES)
    if (folder / SETTINGS).exists():
        _read(folder / SETTINGS, TypeAdapter(_Model))
    for module in modules:
        _check_module(folder / module.path, module.type)
    return folder / modules[0].path


def list_parts(folder: Path) -> set[Path]:
    """Return the folders of a model that `check_encoder` permits: its own, and those of its modules."""
    modules = _read(folder / MODULES, TypeAdapter(list[_Module]))
    return {folder, *(folder / module.path for module in modules)}


def _check_module(folder: Path, kind: str) -> None:
    if kind == "Transformer":
        for path in folder.glob(TRANSFORMER_SETTINGS):
            _read(path, TypeAdapter(_Transformer))
        read_config(folder, encoder=True)
    elif kind == "Pooling":
        _read(folder / CONFIG, TypeAdapter(_Pooling))
    elif kind == "Dense":
        _read(folder / CONFIG, TypeAdapter(_Dense))
        list_weight_files(folder)  # from any other format the library would unpickle


def _read(path: Path, schema: TypeAdapter[Content]) -> Content:
    """Return the content of a JSON file, validated."""
    try:
        return schema.validate_python(read_json(path))
    except ValidationError as e:
        what = describe_mismatch(e.errors(include_url=False, include_input=False)[0])
        remedy = "choose a model made of sentence-transformers' own modules, or copy its folder again"
        raise UserError(what, remedy, path) from e
