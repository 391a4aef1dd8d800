"""Readers of model folders, before a library loads anything, and of what is remembered of models."""

import os
from pathlib import Path

from formats import JSON, Format, safetensors
from target import Target

from pan_scdg.models.cache import VARIABLE, find_model
from pan_scdg.models.capacity import encoder_bytes, pass_bytes, weight_bytes
from pan_scdg.models.checkpoint import check_weights, read_config
from pan_scdg.models.config import check_fields
from pan_scdg.models.encoder_folder import check_encoder
from pan_scdg.models.files import explain_tokenizer
from pan_scdg.models.fingerprint import weights_fingerprint
from pan_scdg.models.lock import read_lock
from pan_scdg.profile import ModelSettings

SETTINGS = ModelSettings(name="tiny", dtype="float16")


def _model(folder: Path) -> None:
    folder = find_model("tiny", folder).folder
    config = read_config(folder)
    check_fields(config, folder)
    check_weights(folder)
    weight_bytes(folder, "float16", config)
    pass_bytes(config, SETTINGS, "cpu", tokens=100)


def _encoder(folder: Path) -> None:
    check_encoder(folder)
    encoder_bytes(folder, "float32")


def _tokenizer(folder: Path) -> None:
    fault = explain_tokenizer(folder)
    if fault is not None:
        raise fault


def _lock(folder: Path) -> None:
    os.environ[VARIABLE] = str(folder)
    read_lock()


def _weights(folder: Path) -> None:
    weights_fingerprint(folder, folder / "weights.json")


def _make_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(bytes(20))
    weights_fingerprint(folder, folder / "weights.json")


WEIGHTS = JSON.packed_by(safetensors)
LM, ENCODER, FILES = "pan_scdg.lm", "pan_scdg.models.encoder_folder", "pan_scdg.models.files"
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
        (f"{LM}.checkpoint", f"{LM}.capacity", "pan_scdg.models.config", FILES, "pan_scdg.models.cache"),
        rate=0.3,
    ),
    Target("encoder", _encoder, ENCODER_FILES, (ENCODER, FILES), rate=0.2),
    Target("tokenizer", _tokenizer, {"tokenizer.json": JSON}, (FILES,), rate=0.5),
    Target("lock", _lock, {"models.lock.json": JSON}, ("pan_scdg.models.lock", "pan_scdg.own_files")),
    Target(
        "weights-known",
        _weights,
        {"weights.json": JSON},
        (f"{LM}.fingerprint",),
        made=_make_weights,
        writes=True,
        rate=0.3,
    ),
)
