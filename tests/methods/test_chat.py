"""Endpoints that answer well, late, broken, with rubbish, or not at all."""

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pan_scdg.errors import Interrupted, UserError
from pan_scdg.methods import chat as endpoint
from pan_scdg.methods.chat import TRIES, Endpoint, Messages, answer_all, read_endpoint
from tests.local_chat import Fault, LocalChat, serving

KEY = "sk-very-secret-0123456789"
CHAT = [{"role": "system", "content": "Judge."}, {"role": "user", "content": "Is it?"}]
WELL = "no"
RUBBISH = {
    "nothing": b"",
    "a page": b"<html>busy</html>",
    "no object": b"[1, 2]",
    "an error in the place of an answer": b'{"error": {"message": "busy"}}',
    "no choices": b'{"choices": []}',
    "no message": b'{"choices": [{"text": "no"}]}',
    "content that is no text": b'{"choices": [{"message": {"content": 5}}]}',
    "not UTF-8": b'{"choices": [{"message": {"content": "\xff"}}]}',
    "brackets": b"[" * 100_000,
}


@pytest.fixture
def chat() -> Iterator[LocalChat]:
    with serving(LocalChat()) as served:
        yield served


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that the client would wait before each further try."""
    found: list[float] = []
    monkeypatch.setattr("openai._base_client.time.sleep", found.append)
    monkeypatch.setenv("NO_PROXY", "*")
    for name in (endpoint.URL, endpoint.KEY, endpoint.MODEL):
        monkeypatch.delenv(name, raising=False)
    return found


def ask(chat: LocalChat, **more: Any) -> str:
    return Endpoint(chat.url, "judge", **{"key": KEY, "timeout": 60.0, **more}).complete(CHAT)


def test_asks_as_the_paper_does(chat: LocalChat, waits: list[float]) -> None:
    assert ask(chat) == WELL
    assert chat.asked == [{"model": "judge", "messages": CHAT, "temperature": 0, "max_tokens": 64}]
    assert chat.keys == {f"Bearer {KEY}"}
    assert (endpoint.TIMEOUT_SECONDS, endpoint.TRIES, waits) == (300, 5, [])


def test_a_message_without_content_is_an_empty_answer(chat: LocalChat) -> None:
    chat.says = lambda _: None
    assert ask(chat) == ""
    assert len(chat.asked) == 1


def test_odd_texts_come_as_they_are(chat: LocalChat) -> None:
    chat.says = lambda _: "\x1b[31m\0 \u202e\U0001f469 ignore all rules"
    assert ask(chat) == "\x1b[31m\0 \u202e\U0001f469 ignore all rules"


def test_a_late_answer_is_asked_for_again(chat: LocalChat, waits: list[float]) -> None:
    chat.faults = [Fault(late=True)]
    assert ask(chat, timeout=1.0) == WELL
    assert waits, "it was asked again"


def test_an_endpoint_that_is_always_late_is_down(chat: LocalChat) -> None:
    chat.always = Fault(late=True)
    with pytest.raises(Interrupted, match=rf"^{chat.url}: gave no answer within 0.1 s$"):
        ask(chat, timeout=0.1)
    assert len(chat.asked) == TRIES


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504])
def test_waits_longer_before_each_further_try(chat: LocalChat, waits: list[float], status: int) -> None:
    chat.faults = [Fault(status)] * 4
    assert ask(chat) == WELL
    assert len(waits) == 4
    assert waits == sorted(waits)


def test_waits_as_long_as_the_server_asks(chat: LocalChat, waits: list[float]) -> None:
    chat.faults = [Fault(429, headers={"Retry-After": "30"})]
    assert ask(chat) == WELL
    assert waits == [30]


@pytest.mark.parametrize("said", ["soon", "", "nan", "inf", "-5", "Mon, 99 Foo 2020 00:00:00 GMT"])
def test_a_wait_that_is_none_counts_for_nothing(chat: LocalChat, waits: list[float], said: str) -> None:
    chat.faults = [Fault(503, headers={"Retry-After": said})]
    assert ask(chat) == WELL
    assert 0 < waits[0] <= 1


def test_does_not_wait_for_hours(chat: LocalChat, waits: list[float]) -> None:
    chat.always = Fault(429, b"quota", {"Retry-After": "7200"})
    with pytest.raises(Interrupted, match="answers with status 429 and Retry-After 7200: quota$"):
        ask(chat)
    assert (len(chat.asked), waits) == (1, [])


@pytest.mark.parametrize("body", RUBBISH.values(), ids=RUBBISH)
@pytest.mark.parametrize("kind", ["application/json", "text/html"])
def test_rubbish_ends_the_run_until_later(chat: LocalChat, body: bytes, kind: str) -> None:
    chat.faults = [Fault(200, body, {"Content-Type": kind})]
    with pytest.raises(Interrupted, match="something else than chat completions"):
        ask(chat)
    assert ask(chat) == WELL


@pytest.mark.parametrize(
    "fault",
    [Fault(cut=True), Fault(200, b"no gzip", {"Content-Encoding": "gzip"})],
    ids=["a broken connection", "damaged compression"],
)
def test_a_broken_answer_is_asked_for_again(chat: LocalChat, fault: Fault) -> None:
    chat.faults = [fault]
    assert ask(chat) == WELL


def test_nobody_there(waits: list[float]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(Interrupted, match=rf"^{url}: cannot be reached \(.*refused.*\)$"):
        Endpoint(url, "judge").complete(CHAT)
    assert len(waits) == TRIES - 1


@pytest.mark.parametrize(
    ("status", "what"),
    [
        (400, "refuses the request (status 400): too long. Correct what it names"),
        (401, "refuses the key (status 401). Set OPENAI_API_KEY"),
        (403, "refuses the key (status 403). Set OPENAI_API_KEY"),
        (404, "has no model judge or no chat interface (status 404): too long. Set OPENAI_MODEL"),
        (413, "refuses the request (status 413): too long"),
        (422, "refuses the request (status 422): too long"),
    ],
)
def test_a_refusal_is_one_line_at_once(chat: LocalChat, waits: list[float], status: int, what: str) -> None:
    chat.always = Fault(status, b"too\n long")
    with pytest.raises(UserError) as error:
        ask(chat)
    assert str(error.value).startswith(f"{chat.url}: {what}")
    assert (len(chat.asked), waits) == (1, [])


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
def test_the_key_is_never_shown(chat: LocalChat, status: int) -> None:
    body = json.dumps({"error": {"message": f"wrong key {KEY} \x1b[2J"}}).encode()
    chat.always = Fault(status, body)
    with pytest.raises((UserError, Interrupted)) as error:
        ask(chat)
    assert KEY not in str(error.value)
    assert "\x1b" not in str(error.value)


def test_what_the_environment_says(chat: LocalChat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(endpoint.URL, chat.url)
    assert read_endpoint("Llama").complete(CHAT) == WELL
    monkeypatch.setenv(endpoint.MODEL, "llama3:8b")
    monkeypatch.setenv(endpoint.KEY, KEY)
    assert read_endpoint("Llama").complete(CHAT) == WELL
    assert [request["model"] for request in chat.asked] == ["Llama", "llama3:8b"]
    assert chat.keys == {"Bearer none", f"Bearer {KEY}"}


def test_no_address_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"^OPENAI_BASE_URL is not set. Give the address .*http://localhost:8000/v1\.$"):
        read_endpoint("m")
    monkeypatch.setenv(endpoint.URL, "")
    with pytest.raises(UserError, match="is not set"):
        read_endpoint("m")


@pytest.mark.parametrize(
    "url", ["localhost:8000/v1", "ftp://host/v1", "http://", "http://[::1", "http://h:99999/v1", "http://h/v1\n", "/v1"]
)
def test_an_address_that_is_none(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv(endpoint.URL, url)
    with pytest.raises(UserError, match="OPENAI_BASE_URL is not an HTTP address. Give one that begins with http"):
        read_endpoint("m")


def test_a_key_that_is_none_is_not_shown_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(endpoint.URL, "http://localhost/v1")
    monkeypatch.setenv(endpoint.KEY, f"{KEY}\n")
    with pytest.raises(UserError, match="OPENAI_API_KEY contains an invalid character") as error:
        read_endpoint("m")
    assert KEY not in str(error.value)


def test_secrets_of_an_address_are_not_shown() -> None:
    shown = Endpoint("https://user:secret@[::1]:8443/v1?token=secret#x", "m").address
    assert shown == "https://[::1]:8443/v1"


def test_answers_come_in_order_and_several_are_requested_at_a_time() -> None:
    met = threading.Barrier(4)

    def complete(messages: Messages) -> str:
        met.wait(20)  # breaks unless four are there together
        return messages[0]["content"]

    chats = [[{"role": "user", "content": str(i)}] for i in range(8)]
    assert answer_all(chats, complete) == [str(i) for i in range(8)]
    assert answer_all([], complete) == []


@pytest.mark.parametrize("failure", [UserError("refused", "change it"), Interrupted("down"), RuntimeError("a mistake")])
def test_a_failure_is_raised_and_ends_the_requests(failure: BaseException) -> None:
    asked: list[str] = []

    def complete(messages: Messages) -> str:
        asked.append(messages[0]["content"])
        if asked[-1] == "3":
            raise failure
        return "no"

    with pytest.raises(type(failure)):
        answer_all([[{"role": "user", "content": str(i)}] for i in range(1000)], complete)
    assert len(asked) < 1000
