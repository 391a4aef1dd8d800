"""Check the files of a checkpoint, which are untrusted, before a library reads them.

Only regular files are opened, JSON is read within limits, weights are safetensors in the same folder, and whatever asks
for code of its own or for files elsewhere is refused. A snapshot in the Hugging Face cache consists of links to its
files, so links to regular files are followed.

A download that reserved the whole file and stopped, or a copy that lost blocks, leaves a file of the right size with
zeros. Such a model loads, gives each token the same probability, and makes every gain 0, so weights are checked, too.

A model can have more positions than its checkpoint publishes, as the position rule of the profile says. No file of the
checkpoint is edited for it, since models may be mounted read-only.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pan_scdg.errors import UserError, get_first_line
from pan_scdg.models.catalogue import CONFIG
from pan_scdg.pan.untrusted import check_format, open_regular, parse_json
from pan_scdg.progress import Progress

if TYPE_CHECKING:
    from pan_scdg.settings import ModelSettings

TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
ADAPTER = "adapter_config.json"
PROCESSORS = ("processor_config.json", "preprocessor_config.json")
"""Further files from which sentence-transformers learns which classes to use."""
SAFETENSORS = ".safetensors"
WEIGHTS = f"model{SAFETENSORS}"
OTHER_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.gguf", "*.h5", "*.msgpack")
INDEX = f"{WEIGHTS}.index.json"
MAX_JSON_BYTES = 64 << 20
"""Of a settings file or an index of weights; the index of a model of 10,000 tensors has one MB."""
MAX_JSON_VALUES = 5_000_000
MAX_TEXT_BYTES = 512 << 20
"""Of a file that a library reads into memory, such as a vocabulary."""
MAX_ZERO_ROWS = 0.5
"""Largest share of the rows of a matrix that are zero. Those of attention that a small model does not use are: 23 % of
a matrix of scdg-mini. A file that ends in zeros has matrices of nothing else."""
OF_TOKENS = ("embed", "head")
"""Parts of the names of matrices with a row for each token; those of tokens that do not exist may be zero."""
FETCH_AGAIN = "fetch or copy the model again"
MAX_NAME_CHARACTERS = 200
"""Of a file's name inside a model folder; file systems permit 255 bytes."""
MAX_LAYERS = 1000
"""Each layer is built, with all that belongs to it, before a weight is read."""
BROKEN_LINK = "a link to a file that does not exist"
BEGINNING_BYTES = 512
"""Of a file, by which its type is recognised."""
HEADER_LENGTH_BYTES = 8
"""At the beginning of safetensors, before their header in JSON."""
READ_INTO_MEMORY = (".json", ".txt", ".model", ".jinja")
CODE = "auto_map"
"""The field that asks for classes from the folder itself."""
PUBLISHED = "as-published"
"""The position rule that changes nothing."""
NEWER_TRANSFORMERS = {"ministral3": "5.23.0"}
"""Text architectures that the pinned transformers lacks, with a release that the tests of ``lm/`` pass with."""
POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "attention_window_size")
"""Fields for the longest input in tokens: that of most architectures, and those of GPT-2, MPT and RecurrentGemma, whose
window transformers leaves out in longer inputs."""
FIELD_TYPES = {
    "model_type": str,
    **dict.fromkeys(POSITIONS, int),
    "architectures": list,
    "rope_scaling": dict,
    "rope_parameters": dict,
    "text_config": dict,
}
"""The fields that are read here; each may be missing or null."""


@dataclass(frozen=True)
class ModelConfig:
    """The checked content of a ``config.json``."""

    data: dict[str, Any]
    path: Path = Path(CONFIG)

    @property
    def text(self) -> dict[str, Any]:
        """Return the part about the language model: ``text_config`` if the file has one."""
        return self.data.get("text_config") or self.data

    @property
    def positions(self) -> int | None:
        """Return the longest input in tokens; None if the file names no limit."""
        return next((self.text[field] for field in POSITIONS if self.text.get(field) is not None), None)

    @property
    def architectures(self) -> list[str]:
        """Return the names of the model classes."""
        return self.data.get("architectures") or []


def read_config(folder: Path, encoder: bool = False, weights: bool = True) -> ModelConfig:
    """Return the checked ``config.json`` of a checkpoint.

    Args:
        folder: the checkpoint.
        encoder: the checkpoint is the transformer of an embedding model. Its files may then have ``auto_map`` at the
            top, which the library ignores because of ``trust_remote_code=False``.
        weights: they must exist; they are needed for everything but the tokenizer.

    Raises:
        UserError: the folder, the file or the weights are missing, the file is not a JSON object, a field has the wrong
            type, the folder is that of an adapter, or the checkpoint asks for code of its own or for weights elsewhere.
    """
    if not folder.is_dir():
        raise UserError(
            "the model folder does not exist", "put the checkpoint there, or choose another profile", folder
        )
    if (folder / ADAPTER).exists():
        raise UserError("this is an adapter, not a whole model", "merge it into its base model first", folder)
    config = ModelConfig(read_object(folder / CONFIG), folder / CONFIG)
    if weights:
        list_weight_files(folder)
    _refuse_code(config.data, config.path, encoder)
    for path in (folder / name for name in (TOKENIZER_CONFIG, *(PROCESSORS if encoder else ()))):
        if path.exists():
            _refuse_code(read_object(path), path, encoder)
    _check_layers(config)
    for part in (config.data, config.text):
        for name, kind in FIELD_TYPES.items():
            if part.get(name) is not None and type(part[name]) is not kind:
                what = f"{name} is of type {type(part[name]).__name__}, not {kind.__name__}"
                raise UserError(what, "replace the damaged file", config.path)
    return config


def list_weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files that are loaded from a folder, which may have the same weights in other forms too.

    Raises:
        UserError: they are missing, or the index is damaged or names a file in another folder.
    """
    names = _read_index(folder / INDEX) if (folder / INDEX).is_file() else set()
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if not names:
        remedy = "fetch or copy the model again"
        if any(path for pattern in OTHER_WEIGHTS for path in folder.glob(pattern)):
            remedy = f"convert the checkpoint to safetensors ({WEIGHTS}, or files with an index)"
        raise UserError("no weights in safetensors format were found", remedy, folder)
    for path in (files := [folder / name for name in sorted(names)]):
        if not path.is_file():
            raise UserError("the index names this file, but it is missing", "fetch or copy it again", path)
    return files


def check_library(config: ModelConfig) -> None:
    """Raise UserError if the installed transformers lacks the architecture or would misread the config.

    transformers 4 ignores ``rope_parameters``, a field of version 5, and would silently use its default rotary
    frequencies.
    """
    with Progress("loading libraries", None):  # the first import takes seconds
        import transformers
        from transformers import AutoTokenizer  # noqa: F401
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    installed, kind = transformers.__version__, config.text.get("model_type")
    if kind in NEWER_TRANSFORMERS and kind not in CONFIG_MAPPING_NAMES:
        what = f"transformers {installed} has no text architecture {kind!r}"
        raise UserError(what, f"install transformers {NEWER_TRANSFORMERS[kind]}", config.path)
    if int(installed.partition(".")[0]) < 5 and "rope_parameters" in config.text:
        raise UserError(
            f"rope_parameters is a field of transformers 5, which the installed {installed} would ignore",
            "use the checkpoint as it was published, or write rope_theta and rope_scaling instead",
            config.path,
        )


def count_positions(config: ModelConfig, settings: "ModelSettings") -> int | None:
    """Return the longest input in tokens under the profile's position rule; None if the checkpoint names no limit.

    Raises:
        UserError: the rule does not apply to this checkpoint: it names no positions, or scales them itself.
    """
    if settings.position_factor is None:
        return config.positions
    remedy = f'use positions = "{PUBLISHED}" in [model]'
    if config.positions is None:
        raise UserError(
            f'positions = "{settings.positions}" needs a checkpoint that names its positions', remedy, config.path
        )
    rope = config.text.get("rope_scaling") or config.text.get("rope_parameters") or {}
    if (kind := rope.get("rope_type", rope.get("type", "default"))) != "default":
        what = f'positions = "{settings.positions}", but the checkpoint scales its positions itself ({kind})'
        raise UserError(what, remedy, config.path)
    return int(config.positions * settings.position_factor)


def make_library_config(config: ModelConfig, settings: "ModelSettings") -> Any:
    """Return the configuration of transformers with the positions of the rule.

    It is what transformers reads from a ``config.json`` whose ``max_position_embeddings`` is raised and, under
    ``yarn``, whose rotary parameters name YaRN over the published positions.

    Raises:
        UserError: the rule does not apply to this checkpoint, or the model has no rotary positions.
    """
    import transformers

    positions = count_positions(config, settings)
    folder = str(config.path.parent)
    loaded = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if settings.positions == PUBLISHED:
        return loaded
    text: Any = loaded.get_text_config()
    newer = int(transformers.__version__.partition(".")[0]) >= 5
    if not hasattr(text, "rope_parameters" if newer else "rope_theta"):
        raise UserError(
            f'positions = "{settings.positions}" needs rotary positions, which {type(text).__name__} lacks',
            f'use positions = "{PUBLISHED}" in [model]',
            config.path,
        )
    if settings.positions == "yarn":
        scaled = {
            "rope_type": "yarn",
            "factor": settings.position_factor,
            "original_max_position_embeddings": config.positions,
        }
        if newer:
            text.rope_parameters = {**text.rope_parameters, **scaled}
        else:
            text.rope_scaling = scaled
    text.max_position_embeddings = positions
    return loaded


def check_entries(folder: Path, recursive: bool = False) -> None:
    """Raise UserError unless every visible entry of a model folder is a regular file or a folder.

    Opening anything else, such as a pipe, could block forever. A file of the model that is none, such as a pointer of
    Git LFS, is named. With ``recursive``, inner folders are checked too; they
    must not be links, which a fingerprint would not cover.
    """
    with os.scandir(folder) as entries:
        visible = [entry for entry in entries if not entry.name.startswith(".")]
    for entry in visible:
        try:
            status = entry.stat()
        except FileNotFoundError as e:
            if entry.name.endswith((*READ_INTO_MEMORY, SAFETENSORS)):
                raise UserError(f"is {BROKEN_LINK}", "copy or fetch the whole model again", entry.path) from e
            continue  # nothing reads it
        except OSError as e:
            raise UserError(f"cannot be read: {e.strerror}", "replace it with the model's file", entry.path) from e
        if stat.S_ISDIR(status.st_mode):
            if recursive and entry.is_symlink():
                raise UserError("an inner folder is a link", "copy the folder to its place", entry.path)
            if recursive:
                check_entries(Path(entry.path), recursive)
        elif not stat.S_ISREG(status.st_mode):
            raise UserError("not a regular file", "replace it with the model's file", entry.path)
        elif entry.name.endswith(READ_INTO_MEMORY) and status.st_size > MAX_TEXT_BYTES:
            raise UserError(f"larger than {MAX_TEXT_BYTES} bytes", "replace it with the model's file", entry.path)
        elif entry.name.endswith((*READ_INTO_MEMORY, SAFETENSORS)):
            _check_type(Path(entry.path))


def find_broken_link(folder: Path) -> str | None:
    """Return the first of a model's files, by name, that is a link to a file that does not exist."""
    names = (p.name for p in sorted(folder.iterdir()) if p.is_symlink() and not p.exists())
    return next((name for name in names if name.endswith((*READ_INTO_MEMORY, SAFETENSORS))), None)


def _check_type(path: Path) -> None:
    with open_regular(path) as file:
        beginning = file.read(BEGINNING_BYTES)
    if not beginning.startswith(b"{", HEADER_LENGTH_BYTES):  # of safetensors, whose length may look like another format
        check_format(beginning, path)


def read_json(path: Path) -> Any:
    """Return the JSON value in a file of a model folder.

    Raises:
        UserError: the file is missing, not a regular file, too large or not JSON; the text names the file.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UserError("not a regular file", "replace it with the model's file", path)
            data = file.read(MAX_JSON_BYTES + 1)
        if len(data) > MAX_JSON_BYTES:
            raise UserError(f"larger than {MAX_JSON_BYTES} bytes", "replace the damaged file", path)
        return parse_json(data.decode("utf-8"), MAX_JSON_VALUES, finite=False)  # some configs have an Infinity
    except FileNotFoundError as e:
        raise UserError("the model folder lacks this file", "complete the checkpoint", path) from e
    except (OSError, ValueError) as e:
        raise UserError(f"cannot be read as JSON: {e}", "replace the damaged file", path) from e


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a model folder.

    Raises:
        UserError: as in ``read_json``, or the value is not an object.
    """
    data = read_json(path)
    if not isinstance(data, dict):
        raise UserError("is not a JSON object", "replace the damaged file", path)
    return data


def drop_chance(tokenizer: Any) -> None:
    """Switch off what makes a tokenizer encode a text in another way each time: the dropout of a BPE, for training."""
    model: Any = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    if getattr(model, "dropout", None) is not None:
        model.dropout = None


def diagnose_tokenizer(folder: Path) -> UserError | None:
    """Return the fault of the ``tokenizer.json`` of a folder; None if the file is intact or missing.

    The libraries would fall back to other kinds of tokenizers and ask for the packages that those need.
    """
    import tokenizers

    path = folder / TOKENIZER
    if not path.is_file():
        return None
    try:
        tokenizers.Tokenizer.from_file(str(path))
    except BaseException as e:  # the library panics on some inputs
        if isinstance(e, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        return UserError(f"not a tokenizer: {get_first_line(e)[:200]}", "replace the damaged file", path)
    return None


def _read_index(path: Path) -> set[str]:
    """Return the names of the files in the index of a checkpoint, all in its folder."""
    weight_map = read_object(path).get("weight_map")
    if not isinstance(weight_map, dict):
        raise UserError("has no weight_map", "replace the damaged file", path)
    for weight, name in weight_map.items():
        if not isinstance(name, str):
            raise UserError(f"names no file for {weight}", "replace the damaged file", path)
        if Path(name).name != name or not name.endswith(SAFETENSORS) or len(name) > MAX_NAME_CHARACTERS:
            what = f"names {name[:80]!r}, which is not a safetensors file in the same folder"
            raise UserError(what, "replace the damaged file", path)
    return set(weight_map.values())


def _check_layers(config: ModelConfig) -> None:
    """Raise UserError if the file asks for more layers than any model has."""
    for part in (config.data, *(value for value in config.data.values() if isinstance(value, dict))):
        for name in ("num_hidden_layers", "num_layers", "n_layer", "n_layers"):
            if isinstance(count := part.get(name), int | float) and not count <= MAX_LAYERS:
                raise UserError(f"{name} is above {MAX_LAYERS}", "replace the damaged file", config.path)


def _refuse_code(data: dict[str, Any], path: Path, permit_auto_map: bool) -> None:
    """Raise UserError if a file asks for code, or for weights elsewhere, which the fingerprint would not cover."""
    fields = [field for field in _find_foreign_fields(data) if not (permit_auto_map and field == CODE)]
    if fields:
        what = f"the checkpoint would run its own code or read other files ({fields[0]})"
        raise UserError(what, "use a model that transformers supports, in one folder", path)


def _find_foreign_fields(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield the fields that name code or other files, at any depth."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    for name, inner in value.items() if isinstance(value, dict) else ():
        kernel = str(name).endswith("attn_implementation") and "/" in str(inner)  # would be downloaded and run
        if name in (CODE, "transformers_weights") or kernel:
            yield str(name) if depth == 0 else f"{name}, nested"
        else:
            yield from _find_foreign_fields(inner, depth + 1)


def check_weights(weights: Iterable[tuple[str, Any]], folder: Path) -> None:
    """Raise UserError for the first weights, by name, that are not finite, or of which a large part is zero.

    A vector may be zero: that of an unused bias is.
    """
    for name, weight in weights:
        if not weight.is_floating_point() or weight.element_size() < 2 or not weight.numel():
            continue
        rows = weight.detach().reshape(len(weight) if weight.dim() > 1 else 1, -1)
        smallest, largest = rows.amin(1), rows.amax(1)  # five times as fast as aminmax, and without a copy
        if not (smallest.isfinite() & largest.isfinite()).all():
            raise UserError(f"the weights {name} have values that are not finite", FETCH_AGAIN, folder)
        zeros = ((smallest == 0) & (largest == 0)).float().mean().item()
        is_of_tokens = any(part in name for part in OF_TOKENS)
        if weight.dim() > 1 and (zeros == 1 or (zeros > MAX_ZERO_ROWS and not is_of_tokens)):
            what = f"the weights {name} are damaged: {zeros:.0%} of their rows are zero"
            raise UserError(what, FETCH_AGAIN, folder)
