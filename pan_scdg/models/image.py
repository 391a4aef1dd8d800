"""Fetch the models for a container image: ``python -m pan_scdg.models.image "scdg-mini NAME@REVISION ..."``.

The Dockerfile calls this in a stage that contains only the modules it needs, so that other changes of the code do not
fetch the models again. The command ``models fetch`` does the same, and needs the whole package.
"""

import sys

from pan_scdg.errors import UserError
from pan_scdg.models.catalogue import CATALOGUE
from pan_scdg.models.fetch import fetch_model
from pan_scdg.models.lock import read_lock

COPIED = "scdg-mini"
"""This model is part of the repository, and the Dockerfile copies it."""
PREPARED = "model_cache/image"
"""Models fetched into this folder before the build are copied into the image together with their lock."""


def parse_models(words: str) -> dict[str, str]:
    """Return the revision of each model to fetch, by name, in the order of ``words``.

    Args:
        words: the build argument ``MODELS``: ``scdg-mini`` and ``NAME@REVISION``, separated by spaces or commas (TIRA's
            client splits the arguments of a build at spaces).

    Raises:
        UserError: a word is malformed or occurs twice, or names a model that is unknown, is gated (a build has no
            token) or is in ``model_cache/image`` already.
    """
    found: dict[str, str] = {}
    for word in words.replace(",", " ").split():
        name, _, revision = word.partition("@")
        if name in found:
            raise UserError(f"MODELS names {name} twice", "leave one of them out")
        if word != COPIED:
            _check_word(word, name, revision)
        found[name] = revision
    return {name: revision for name, revision in found.items() if name != COPIED}


def _check_word(word: str, name: str, revision: str) -> None:
    known = CATALOGUE.get(name)
    if known is None:
        raise UserError(f"MODELS names {word!r}", f"give {COPIED}, or NAME@REVISION of: {', '.join(CATALOGUE)}")
    if not revision:
        remedy = f"give {name}@REVISION with a commit, branch or tag"
        raise UserError(f"MODELS names {name} without a revision", remedy)
    if known.gated:
        raise UserError(
            f"MODELS names {name}, which is gated, and a build has no token",
            f"fetch it with HF_TOKEN into {PREPARED} before the build, which copies that folder",
        )
    if name in read_lock():
        raise UserError(f"MODELS names {name}, which is already in {PREPARED}", "leave it out of one of them")


def main(words: str) -> int:
    """Fetch and lock the models, and return the exit code: 2 after one line on stderr."""
    try:
        for name, revision in parse_models(words).items():
            print("\n".join(fetch_model(name, revision)), flush=True)
    except UserError as e:
        print(f"error: {e}".encode("ascii", "backslashreplace").decode(), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(" ".join(sys.argv[1:])))
