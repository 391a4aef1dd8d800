"""What went wrong with the Hugging Face hub, as one line for the user. A token never comes into it."""

import os

from pan_scdg.errors import UserError
from pan_scdg.models.catalogue import Published

AGAIN = "check the network connection and give the same command again: it goes on from what is there"
TOKEN = "then give a token of your account to this command in the environment variable HF_TOKEN"


def explained(error: Exception, published: Published, revision: str) -> UserError:
    """The fault behind an exception of ``huggingface_hub``.

    Raises:
        Exception: ``error`` itself where it is no fault of the hub or the network, such as a full disk.
    """
    from huggingface_hub import errors

    error, repository = _cause(error), published.repository
    if isinstance(error, errors.OfflineModeIsEnabled):
        return UserError("HF_HUB_OFFLINE is set, and fetching needs the network", "unset it for this command")
    if isinstance(error, errors.RevisionNotFoundError):
        return UserError(
            f"{repository} has no revision {revision!r}", "name a commit, a branch or a tag of the repository"
        )
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.GatedRepoError) or status in (401, 403):
        return _refused(published)
    if isinstance(error, errors.RepositoryNotFoundError):
        return UserError(f"the hub has no repository {repository}", "see whether it was renamed, and fetch it by hand")
    if status is not None:
        return UserError(f"the hub answers with status {status} for {repository}", "give the same command again later")
    if isinstance(error, UnicodeError):
        return UserError("HF_TOKEN holds characters that no token has", "copy the token again")
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ConnectionError | TimeoutError):
        raise error  # of the own disk: exceptions of the libraries for HTTP have no number
    if isinstance(error, OSError) or type(error).__module__.startswith(("httpx", "urllib3")):
        return UserError(f"the hub cannot be reached, or the connection broke: {type(error).__name__}", AGAIN)
    raise error


def _cause(error: Exception) -> Exception:
    """The library says "not found locally" of everything that keeps it from the hub, and why in the cause."""
    from huggingface_hub import errors

    while isinstance(error, errors.LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    return error


def _refused(published: Published) -> UserError:
    had = "refuses the token in HF_TOKEN" if os.environ.get("HF_TOKEN") else "gives it to known accounts only"
    what = f"{published.repository} is gated" if published.gated else f"no access to {published.repository}"
    return UserError(f"{what}: the hub {had}", f"accept the licence on the model's page on the hub, {TOKEN}")
