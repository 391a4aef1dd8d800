"""The models that an image is built with: ``python -m pan_scdg.models.image "scdg-mini NAME@REVISION ..."``.

The Dockerfile calls it in a stage that holds this module and the few that it needs, so that a change anywhere else
fetches nothing again. The command ``models fetch`` does the same, and takes the whole package.
"""

import sys

from pan_scdg.errors import UserError
from pan_scdg.models.catalogue import CATALOGUE
from pan_scdg.models.fetch import fetch_model
from pan_scdg.models.lock import locked

EMBEDDED = "scdg-mini"
"""Lies in the repository and is copied by the Dockerfile itself."""
PREPARED = "model_cache/image"
"""What was fetched into this folder before the build comes into the image as it is; its lock is there already."""


def models_to_fetch(words: str) -> dict[str, str]:
    """The revision of each model that has to be fetched, by its name; in the order of ``words``.

    Args:
        words: what the build argument ``MODELS`` says: ``scdg-mini`` and ``NAME@REVISION``, with spaces or commas
            between them; TIRA's client takes arguments of a build apart at spaces.

    Raises:
        UserError: a word is neither, is there twice, or means a model that is unknown, is gated (a build has no token)
            or comes from ``model_cache/image`` already.
    """
    found: dict[str, str] = {}
    for word in words.replace(",", " ").split():
        name, _, revision = word.partition("@")
        if name in found:
            raise UserError(f"MODELS names {name} twice", "leave one of them out")
        if word != EMBEDDED:
            _check(word, name, revision)
        found[name] = revision
    return {name: revision for name, revision in found.items() if name != EMBEDDED}


def _check(word: str, name: str, revision: str) -> None:
    known = CATALOGUE.get(name)
    if known is None:
        raise UserError(f"MODELS names {word!r}", f"give {EMBEDDED}, or NAME@REVISION of: {', '.join(CATALOGUE)}")
    if not revision:
        raise UserError(
            f"MODELS names {name} without a revision", f"give {name}@REVISION: a commit, a branch or a tag of it"
        )
    if known.gated:
        raise UserError(
            f"MODELS names {name}, which is gated, and no token comes into a build",
            f"fetch it with HF_TOKEN into {PREPARED} before the build, which takes what lies there",
        )
    if locked(name) is not None:
        raise UserError(f"MODELS names {name}, which {PREPARED} has already", "leave it out of one of them")


def main(words: str) -> int:
    """Fetch and lock the models; returns the exit code, 2 after one line on stderr."""
    try:
        for name, revision in models_to_fetch(words).items():
            print("\n".join(fetch_model(name, revision)), flush=True)
    except UserError as e:
        print(str(e).encode("ascii", "backslashreplace").decode(), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(" ".join(sys.argv[1:])))
