"""A chat endpoint on this machine that answers well, or badly in the ways that real ones do."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE = 20.0
"""Seconds after which a held answer goes out anyhow, so that a failing test ends."""


@dataclass(frozen=True)
class Fault:
    """What comes in the place of a good answer."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    late: bool = False
    """Nothing comes until the server ends."""
    cut: bool = False
    """The connection breaks without a word."""


@dataclass
class LocalChat:
    """What the endpoint says, how it misbehaves, and what it was asked."""

    says: Callable[[str], str | None] = lambda _: "no"
    """From the user's message to the answer; runs in the thread of the request."""
    faults: list[Fault] = field(default_factory=list)
    """Come before the first good answer, one a request."""
    always: Fault | None = None
    """Comes every time."""
    model: str = "judge-8b"
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    """Every request's JSON."""
    answered: list[str] = field(default_factory=list)
    """The user's message of every request that got a good answer."""
    keys: set[str | None] = field(default_factory=set)
    """Authorisations that came."""
    ended: threading.Event = field(default_factory=threading.Event)

    def completion(self, user: str) -> bytes:
        message = {"role": "assistant", "content": self.says(user)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return json.dumps({"id": "1", "object": "chat.completion", "model": self.model, "choices": [choice]}).encode()


@contextmanager
def serving(chat: LocalChat) -> Iterator[LocalChat]:
    """The endpoint answers on a port of this machine until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nothing is said on stderr."""

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            chat.asked.append(request)
            chat.keys.add(self.headers.get("Authorization"))
            fault = chat.always or (chat.faults.pop(0) if chat.faults else None)
            if self.path != "/v1/chat/completions":
                fault = Fault(404, b"no such path")
            with suppress(BrokenPipeError, ConnectionResetError):  # whoever asked has gone
                self._misbehave(fault) if fault else self._answer(request["messages"][-1]["content"])

        def _answer(self, user: str) -> None:
            body = chat.completion(user)
            self._send(200, body, {"Content-Type": "application/json"})
            chat.answered.append(user)

        def _misbehave(self, fault: Fault) -> None:
            if fault.late:
                chat.ended.wait(PATIENCE)
            if fault.cut:
                self.connection.close()
                return
            self._send(fault.status, fault.body, {"Content-Type": "application/json", **fault.headers})

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    chat.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield chat
    finally:
        chat.ended.set()
        server.shutdown()
        server.server_close()


def until(happened: Callable[[], object]) -> bool:
    """Wait until something is so, at most for a minute."""
    pause = threading.Event()
    return any(happened() or pause.wait(0.02) for _ in range(3000))
