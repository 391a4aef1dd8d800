"""Request answers from an OpenAI-compatible chat endpoint (vLLM, llama.cpp, Ollama, TGI), one chat at a time.

The environment names it, by the three variables that TIRA passes on: ``OPENAI_BASE_URL`` (required),
``OPENAI_API_KEY`` (local servers rarely need one) and ``OPENAI_MODEL``, which overrides the model name of the profile
because servers name one model differently. Whatever the server sends is treated as text.
"""

import os
import re
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError

from pan_scdg.errors import Interrupted, UserError, escape_controls, need_packages

Messages = list[dict[str, str]]
"""A chat: ``role`` and ``content`` of each message, in order."""
URL, KEY, MODEL = "OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"
NEW_TOKENS = 64
"""Largest number of tokens of an answer (paper, PlagBench-style prompting); they are chosen at temperature zero."""
TIMEOUT = 300.0
"""Seconds without a byte of the answer after which an attempt has failed (paper)."""
TRIES = 5
"""The paper retries "up to five times", without saying if the first attempt counts; here it does."""
LASTING = frozenset({408, 409, 425, 429})
"""Statuses, besides 5xx, after which the same request may succeed later."""
SHOWN = 200
"""Number of characters of a server's message that are shown."""
_PRINTABLE = re.compile(r"[!-~]+")


class Reply(NamedTuple):
    """An answer."""

    text: str
    """Unchanged; "" if the message has no text."""
    model: str
    """The model that answered, as the server or the profile names it."""


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message


class _Completion(BaseModel):
    """The fields of a chat completion that are read."""

    model: str | None = None
    choices: list[_Choice] = Field(min_length=1)


def choose_model_name(profile_model: str) -> str:
    """Return the model name for the endpoint: ``$OPENAI_MODEL``, else that of the profile."""
    return os.environ.get(MODEL) or profile_model


def read_endpoint(profile_model: str) -> "Endpoint":
    """Return the endpoint that the environment names; nothing is sent yet.

    Raises:
        UserError: its address is missing or invalid, or the key has a character that no header can carry.
    """
    url, key = os.environ.get(URL), os.environ.get(KEY)
    if not url:
        raise UserError(f"{URL} is not set", "give the address of a chat endpoint, such as http://localhost:8000/v1")
    if key and not _PRINTABLE.fullmatch(key):  # the client's own error would show it
        raise UserError(f"{KEY} contains an invalid character", "set it again, without quotes or line ends")
    return Endpoint(url, choose_model_name(profile_model), key or None)


class Endpoint:
    """A chat endpoint; one object can be used by several threads.

    Args:
        url: its address up to and with ``/v1``.
        model: the server's name of the model.
        key: sent with each request and never shown.
        timeout: see ``TIMEOUT``.

    Raises:
        UserError: ``url`` is not an HTTP address.
    """

    def __init__(self, url: str, model: str, key: str | None = None, timeout: float = TIMEOUT) -> None:
        need_packages("endpoint", "openai")
        import openai

        self.shown = _remove_secrets(url)
        """The address without credentials and query."""
        self.model, self._key, self._timeout = model, key, timeout
        # the client requires a key
        self._client: Any = openai.OpenAI(base_url=url, api_key=key or "none", timeout=timeout, max_retries=TRIES - 1)

    def complete(self, messages: Messages) -> Reply:
        """Return the answer to a chat; the client tries up to ``TRIES`` times and waits as the server asks.

        Raises:
            UserError: the endpoint refuses the request, which would fail again.
            Interrupted: it is down, overloaded or sends no chat completions; later the same request may succeed.
        """
        import openai

        try:
            raw = self._client.chat.completions.with_raw_response.create(
                model=self.model, messages=messages, temperature=0, max_tokens=NEW_TOKENS
            )
            found = _Completion.model_validate_json(raw.content)
        except openai.APIStatusError as e:
            if e.status_code < 500 and e.status_code not in LASTING:
                raise self._describe_refusal(e) from None
            raise self._describe_outage(f"answers with status {e.status_code}{_describe_wait(e)}", e) from None
        except openai.APITimeoutError as e:
            raise self._describe_outage(f"gave no answer within {self._timeout:g} s", e) from None
        except openai.APIConnectionError as e:
            raise self._describe_outage(f"cannot be reached ({_find_cause(e)})", e) from None
        except ValidationError as e:
            what = f"sends something else than chat completions ({e.errors()[0]['msg']})"
            raise self._describe_outage(what, e) from None
        # a message without content is an empty answer, since a repeated request would give the same
        return Reply(found.choices[0].message.content or "", found.model or self.model)

    def _describe_refusal(self, error: Any) -> UserError:
        status = error.status_code
        if status in (401, 403):  # its message may repeat the key
            return UserError(f"refuses the key (status {status})", f"set {KEY} to a valid key", self.shown)
        said = self._quote_server(error)
        if status == 404:
            return UserError(
                f"has no model {self.model} or no chat interface (status 404){said}",
                f"set {MODEL} to a model that it serves, and {URL} to the address in its manual, which ends in /v1",
                self.shown,
            )
        remedy = "correct what it names; a lower characters in the profile makes prompts shorter"
        return UserError(f"refuses the request (status {status}){said}", remedy, self.shown)

    def _describe_outage(self, what: str, error: Exception) -> Interrupted:
        return Interrupted(f"{self.shown}: {what}{self._quote_server(error)}")

    def _quote_server(self, error: Any) -> str:
        """Return the beginning of the server's message, without the key."""
        response = getattr(error, "response", None)
        text = "" if response is None else " ".join(response.text.split())
        if self._key:
            text = text.replace(self._key, "***")
        return f": {escape_controls(text[:SHOWN])}" if text else ""


def _remove_secrets(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in ("http", "https") or not host or not _PRINTABLE.fullmatch(url):
        raise UserError(
            f"{URL} is not an HTTP address", "give one that begins with http:// or https://, such as http://host/v1"
        )
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{'' if port is None else f':{port}'}{parts.path}"


def _describe_wait(error: Any) -> str:
    wait = error.response.headers.get("retry-after", "")
    return f" and Retry-After {escape_controls(wait[:40])}" if wait else ""


def _find_cause(error: BaseException) -> str:
    """Return the text of the exception that a connection error began with."""
    while error.__cause__ is not None:
        error = error.__cause__
    return escape_controls(str(error))[:SHOWN] or type(error).__name__
