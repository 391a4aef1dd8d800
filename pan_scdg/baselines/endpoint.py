"""An OpenAI-compatible chat endpoint (vLLM, llama.cpp, Ollama, TGI) that answers one chat at a time.

Where it is follows from the environment, by the three names that TIRA passes on: ``OPENAI_BASE_URL`` (needed),
``OPENAI_API_KEY`` (servers of one's own rarely want one) and ``OPENAI_MODEL``, which goes before the profile's name of
the model since servers name one model differently. Whatever the server sends is text and nothing else.
"""

import math
import os
import re
import time
from email.utils import parsedate_to_datetime
from threading import Event
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError

from pan_scdg.baselines.prompts import Messages
from pan_scdg.errors import Interrupted, UserError, need_packages, one_line

URL, KEY, MODEL = "OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"
NEW_TOKENS = 64
"""Most tokens of an answer (paper, PlagBench-style prompting); they are chosen at temperature zero."""
TIMEOUT = 300.0
"""Seconds without a byte of the answer after which a try has failed (paper)."""
TRIES = 5
"""The paper retries "up to five times", which leaves open whether the first try is one of them; here it is."""
FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0
"""Seconds before the second try, doubled before each further one; more when the server asks for more, up to these."""
PASSING = frozenset({408, 409, 425, 429})
"""Statuses besides 5xx that another try may not meet again."""
SHOWN = 200
"""Characters of a server's own words that are shown."""
_PRINTABLE = re.compile(r"[!-~]+")


class Reply(NamedTuple):
    """What came back."""

    text: str
    """Raw, "" where the message has no text."""
    model: str
    """The model that answered, as the server or the profile names it."""


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message


class _Completion(BaseModel):
    """What is read of a chat completion."""

    model: str | None = None
    choices: list[_Choice] = Field(min_length=1)


class _NoCompletionError(Exception):
    """Status 200 and something else than a chat completion."""


def model_name(profile_model: str) -> str:
    """The name that the endpoint is asked for: ``$OPENAI_MODEL``, else the profile's."""
    return os.environ.get(MODEL) or profile_model


def endpoint_of_environment(profile_model: str) -> "Endpoint":
    """The endpoint that the environment names; nothing is sent yet.

    Raises:
        UserError: its address is missing or is none, or the key holds what no header can carry.
    """
    url, key = os.environ.get(URL), os.environ.get(KEY)
    if not url:
        raise UserError(f"{URL} is not set", "give the address of a chat endpoint, such as http://localhost:8000/v1")
    if key and not _PRINTABLE.fullmatch(key):  # the client's own error would show it
        raise UserError(f"{KEY} holds a character that no key has", "set it again, without quotes or line ends")
    return Endpoint(url, model_name(profile_model), key or None)


class Endpoint:
    """A chat endpoint. One object may be asked from several threads.

    Args:
        url: its address up to and with ``/v1``.
        model: what the server calls the model.
        key: sent with each request and never shown; None: none.
        timeout: seconds, see ``TIMEOUT``.
        first_wait: seconds, see ``FIRST_WAIT``.

    Raises:
        UserError: ``url`` is no address.
    """

    def __init__(
        self, url: str, model: str, key: str | None = None, timeout: float = TIMEOUT, first_wait: float = FIRST_WAIT
    ) -> None:
        need_packages("endpoint", "openai", "tenacity")
        import openai

        self.shown = _shown(url)
        """The address without what may be secret in it."""
        self.model, self._key, self._timeout = model, key, timeout
        # the client wants some key; its own retries are off, since they are counted here
        self._client: Any = openai.OpenAI(base_url=url, api_key=key or "none", timeout=timeout, max_retries=0)
        self._down = Event()
        self._tries = _tries(first_wait, self._down)

    def complete(self, messages: Messages) -> Reply:
        """The answer to a chat, after up to ``TRIES`` tries.

        Raises:
            UserError: the endpoint refuses the request; another try would meet the same.
            Interrupted: it is down, overloaded or sends no chat completions; later the same request may succeed.
        """
        import openai

        try:
            reply: Reply = self._tries(self._ask, messages)
        except openai.APIStatusError as e:
            if not _passes(e.status_code):
                raise self._refusal(e) from None
            raise self._outage(f"answers with status {e.status_code}", e) from None
        except openai.APITimeoutError as e:
            raise self._outage(f"gave no answer within {self._timeout:g} s", e) from None
        except openai.APIConnectionError as e:
            raise self._outage(f"cannot be reached ({_cause(e)})", e) from None
        except _NoCompletionError as e:
            raise self._outage(f"sends something else than chat completions ({e})", e) from None
        return reply

    def _ask(self, messages: Messages) -> Reply:
        raw = self._client.chat.completions.with_raw_response.create(
            model=self.model, messages=messages, temperature=0, max_tokens=NEW_TOKENS
        )
        try:
            found = _Completion.model_validate_json(raw.content)
        except ValidationError as e:
            raise _NoCompletionError(e.errors()[0]["msg"]) from None
        # a message without content is an empty answer: the model has said nothing, and would say so again
        return Reply(found.choices[0].message.content or "", found.model or self.model)

    def _refusal(self, error: Any) -> UserError:
        status = error.status_code
        if status in (401, 403):  # its words may repeat the key
            return UserError(f"refuses the key (status {status})", f"set {KEY} to one that it knows", self.shown)
        said = self._words(error)
        if status == 404:
            return UserError(
                f"does not know the model {self.model} or has no chat (status 404){said}",
                f"set {MODEL} to a name that it serves, and {URL} to an address that ends as its manual says (/v1)",
                self.shown,
            )
        remedy = "correct what it names; a lower characters in the profile makes prompts shorter"
        return UserError(f"refuses the request (status {status}){said}", remedy, self.shown)

    def _outage(self, what: str, error: Exception) -> Interrupted:
        self._down.set()
        wait = _asked_wait(error)
        tries = f"and asks to wait {wait:g} s" if wait > LONGEST_WAIT else f"after {TRIES} tries"
        return Interrupted(f"{self.shown}: {what} {tries}{self._words(error)}")

    def _words(self, error: Any) -> str:
        """The server's own words on an error, in short and without the key."""
        response = getattr(error, "response", None)
        text = "" if response is None else " ".join(response.text.split())
        if self._key:
            text = text.replace(self._key, "***")
        return f": {one_line(text[:SHOWN])}" if text else ""


def _tries(first_wait: float, down: Event) -> Any:
    """What calls a function until it succeeds; once ``down`` is set nothing waits for another try any longer."""
    import tenacity

    backoff = tenacity.wait_exponential(multiplier=first_wait, max=LONGEST_WAIT)

    def wait(state: tenacity.RetryCallState) -> float:
        return max(backoff(state), _asked_wait(state.outcome.exception() if state.outcome else None))

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(_may_pass),
        stop=tenacity.stop_after_attempt(TRIES) | tenacity.stop_when_event_set(down),
        wait=wait,
        sleep=tenacity.sleep_using_event(down),
        reraise=True,
    )


def _shown(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in ("http", "https") or not host or not _PRINTABLE.fullmatch(url):
        raise UserError(f"{URL} is no address", "give one that begins with http:// or https://, such as http://host/v1")
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{'' if port is None else f':{port}'}{parts.path}"


def _passes(status: int) -> bool:
    return status in PASSING or status >= 500


def _may_pass(error: BaseException) -> bool:
    """Whether another try after a bearable wait may go better."""
    import openai

    if isinstance(error, openai.APIStatusError):
        return _passes(error.status_code) and _asked_wait(error) <= LONGEST_WAIT
    return isinstance(error, openai.APIConnectionError | _NoCompletionError)


def _asked_wait(error: BaseException | None) -> float:
    """Seconds of the header ``Retry-After``, a number or a date; 0 where there is none that can be read."""
    response = getattr(error, "response", None)
    value = "" if response is None else response.headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return 0.0
    return max(seconds, 0.0) if math.isfinite(seconds) else 0.0


def _cause(error: BaseException) -> str:
    """What lies at the bottom of a connection error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return one_line(str(error))[:SHOWN] or type(error).__name__
