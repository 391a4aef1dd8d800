"""Answer chats at temperature zero by a model at an OpenAI-compatible endpoint.

The environment names the endpoint (vLLM, llama.cpp, Ollama, TGI), by the three variables that TIRA passes on:
``OPENAI_BASE_URL`` (required), ``OPENAI_API_KEY`` (local servers rarely need one) and ``OPENAI_MODEL``, which overrides
the model name of the profile because servers name one model differently. Whatever a server sends is treated as text.
"""

import os
import re
from collections.abc import Callable, Sequence
from multiprocessing.pool import ThreadPool
from threading import Event
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError

from pan_scdg.errors import Interrupted, UserError, escape_controls, need_packages

Messages = list[dict[str, str]]
"""A chat: ``role`` and ``content`` of each message, in order."""
URL, KEY, MODEL = "OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"
NEW_TOKENS = 64
"""Largest number of tokens of an answer (paper, PlagBench-style prompting); they are chosen at temperature zero."""
TIMEOUT_SECONDS = 300.0
"""Time without a byte of the answer after which an attempt has failed (paper)."""
TRIES = 5
"""The paper retries "up to five times", without saying if the first attempt counts; here it does."""
TEMPORARY_STATUSES = frozenset({408, 409, 425, 429})
"""Statuses, besides 5xx, after which the same request may succeed later."""
QUOTED_CHARACTERS = 200
"""Of a server's message."""
CONCURRENT_REQUESTS = 4
_PRINTABLE = re.compile(r"[!-~]+")


def answer_all(chats: Sequence[Messages], complete: Callable[[Messages], str]) -> list[str]:
    """Return the answers to chats, in order, of which a few are requested at the same time.

    After a failure no further chat is sent, and nobody waits for requests under way: the threads of this pool are
    daemons, unlike those of `concurrent.futures`, so that the process can end while a server is silent.

    Raises:
        UserError: the model refuses a chat.
        Interrupted: the model cannot be reached.
    """
    failed = Event()

    def request(chat: Messages) -> str | BaseException:
        if failed.is_set():
            return ""
        try:
            return complete(chat)
        except BaseException as e:  # the pool would lose one that is no Exception
            failed.set()
            return e

    answers = []
    with ThreadPool(min(CONCURRENT_REQUESTS, len(chats) or 1)) as pool:
        for answer in pool.imap(request, chats):
            if isinstance(answer, BaseException):
                raise answer
            answers.append(answer)
    return answers


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message


class _Completion(BaseModel):
    """The fields of a chat completion that are read."""

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
        timeout: see ``TIMEOUT_SECONDS``.

    Raises:
        UserError: ``url`` is not an HTTP address.
    """

    def __init__(self, url: str, model: str, key: str | None = None, timeout: float = TIMEOUT_SECONDS) -> None:
        need_packages("endpoint", "openai")
        import openai

        self.address = _remove_secrets(url)
        """Without credentials and query."""
        self.model, self._key, self._timeout = model, key, timeout
        # the client requires a key
        self._client: Any = openai.OpenAI(base_url=url, api_key=key or "none", timeout=timeout, max_retries=TRIES - 1)

    def complete(self, messages: Messages) -> str:
        """Return the answer to a chat, unchanged; the client tries up to ``TRIES`` times and waits as the server asks.

        A message without content is an empty answer, since a repeated request would give the same.

        Raises:
            UserError: the endpoint refuses the request, which would fail again.
            Interrupted: it is down, overloaded or sends no chat completions; later the same request may succeed.
        """
        import openai

        try:
            raw = self._client.chat.completions.with_raw_response.create(
                model=self.model, messages=messages, temperature=0, max_tokens=NEW_TOKENS
            )
            return _Completion.model_validate_json(raw.content).choices[0].message.content or ""
        except openai.APIStatusError as e:
            if e.status_code < 500 and e.status_code not in TEMPORARY_STATUSES:
                raise self._describe_refusal(e) from None
            wait = e.response.headers.get("retry-after", "")
            what = (
                f"answers with status {e.status_code}{f' and Retry-After {escape_controls(wait[:40])}' if wait else ''}"
            )
            raise self._describe_outage(what, e) from None
        except openai.APITimeoutError as e:
            raise self._describe_outage(f"gave no answer within {self._timeout:g} s", e) from None
        except openai.APIConnectionError as e:
            raise self._describe_outage(f"cannot be reached ({_find_cause(e)})", e) from None
        except ValidationError as e:
            what = f"sends something else than chat completions ({e.errors()[0]['msg']})"
            raise self._describe_outage(what, e) from None

    def _describe_refusal(self, error: Any) -> UserError:
        status = error.status_code
        if status in (401, 403):  # its message may repeat the key
            return UserError(f"refuses the key (status {status})", f"set {KEY} to a valid key", self.address)
        message = self._quote_server(error)
        if status == 404:
            return UserError(
                f"has no model {self.model} or no chat interface (status 404){message}",
                f"set {MODEL} to a model that it serves, and {URL} to the address in its manual, which ends in /v1",
                self.address,
            )
        remedy = "correct what it names, or shorten the prompts with characters in the profile"
        return UserError(f"refuses the request (status {status}){message}", remedy, self.address)

    def _describe_outage(self, what: str, error: Exception) -> Interrupted:
        return Interrupted(f"{self.address}: {what}{self._quote_server(error)}")

    def _quote_server(self, error: Any) -> str:
        """Return the beginning of the server's message, without the key."""
        response = getattr(error, "response", None)
        text = "" if response is None else " ".join(response.text.split())
        if self._key:
            text = text.replace(self._key, "***")
        return f": {escape_controls(text[:QUOTED_CHARACTERS])}" if text else ""


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


def _find_cause(error: BaseException) -> str:
    """Return the text of the exception that a connection error began with."""
    while error.__cause__ is not None:
        error = error.__cause__
    return escape_controls(str(error))[:QUOTED_CHARACTERS] or type(error).__name__
