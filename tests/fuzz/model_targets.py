"""Readers of model folders, before a library loads anything, and of what is remembered of models."""

import os
from pathlib import Path

from formats import JSON, Format, safetensors
from pan_scdg.models.config import read_config
from pan_scdg.models.encoder_folder import check_encoder
from pan_scdg.models.files import diagnose_tokenizer
from pan_scdg.models.fit import count_encoder_bytes, count_pass_bytes, count_weight_bytes
from pan_scdg.models.lock import read_lock
from pan_scdg.models.weights import check_weights
from target import Target

from pan_scdg.bundled import MODEL_CACHE_VARIABLE
from pan_scdg.models.find import find_model
from pan_scdg.models.fingerprint import fingerprint_weights
from pan_scdg.profile import ModelSettings

SETTINGS = ModelSettings(name="tiny", dtype="float16")


def _model(folder: Path) -> None:
    folder = find_model("tiny", folder).folder
    config = read_config(folder)
    check_weights(folder)
    count_weight_bytes(folder, "float16", config)
    count_pass_bytes(config, SETTINGS, "cpu", tokens=100)


def _encoder(folder: Path) -> None:
    check_encoder(folder)
    count_encoder_bytes(folder, "float32")


def _tokenizer(folder: Path) -> None:
    fault = diagnose_tokenizer(folder)
    if fault is not None:
        raise fault


def _lock(folder: Path) -> None:
    os.environ[MODEL_CACHE_VARIABLE] = str(folder)
    read_lock()


def _weights(folder: Path) -> None:
    fingerprint_weights(folder, folder / "weights.json")


def _make_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(bytes(20))
    fingerprint_weights(folder, folder / "weights.json")


WEIGHTS = JSON.packed_by(safetensors)
MODELS_PACKAGE = "pan_scdg.models"
ENCODER, CONFIG, FILES = (f"{MODELS_PACKAGE}.{name}" for name in ("encoder_folder", "config", "files"))
FOLDER: dict[str, Format] = {
    "config.json": JSON,
    "tokenizer_config.json": JSON,
    "model.safetensors": WEIGHTS,
    "model.safetensors.index.json": JSON,
}
ENCODER_FILES: dict[str, Format] = {
    "modules.json": JSON,
    "config_sentence_transformers.json": JSON,
    "sentence_bert_config.json": JSON,
    "config.json": JSON,
    "tokenizer_config.json": JSON,
    "model.safetensors": WEIGHTS,
    "1_Pooling/config.json": JSON,
    "2_Dense/config.json": JSON,
    "2_Dense/model.safetensors": WEIGHTS,
}
MODELS = (
    Target(
        "model",
        _model,
        FOLDER,
        (f"{MODELS_PACKAGE}.weights", f"{MODELS_PACKAGE}.memory", CONFIG, FILES, f"{MODELS_PACKAGE}.find"),
        rate=0.3,
    ),
    Target("encoder", _encoder, ENCODER_FILES, (ENCODER, CONFIG, FILES), rate=0.2),
    Target("tokenizer", _tokenizer, {"tokenizer.json": JSON}, (FILES,), rate=0.5),
    Target("lock", _lock, {"models.lock.json": JSON}, (f"{MODELS_PACKAGE}.lock", "pan_scdg.own_files")),
    Target(
        "weights-known",
        _weights,
        {"weights.json": JSON},
        (f"{MODELS_PACKAGE}.fingerprint",),
        made=_make_weights,
        writes=True,
        rate=0.3,
    ),
)
