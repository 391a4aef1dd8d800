"""A hub on this machine with the answers that ``huggingface_hub`` needs: model information, and files with ranges."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

LARGE = (".safetensors", ".bin", ".pt")
"""Kinds of files that a hub keeps outside git and names by their SHA-256."""


@dataclass
class LocalHub:
    """What the hub holds, how it misbehaves, and what it was asked."""

    repository: str
    commit: str
    files: dict[str, bytes]
    branches: tuple[str, ...] = ("main",)
    token: str | None = None
    """What a gated repository wants to see."""
    cut: dict[str, int] = field(default_factory=dict)
    """After how many bytes the connection breaks, every time until it is removed here."""
    damaged: set[str] = field(default_factory=set)
    """Files that come with the right size and other bytes."""
    stalled: threading.Event = field(default_factory=threading.Event)
    """Set when a cut file has come so far, where `stalls`."""
    released: threading.Event = field(default_factory=threading.Event)
    """Until this is set, a connection that is to break stays open without a byte, where `stalls`."""
    stalls: bool = False
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Method, file (or "info") and range of each request."""
    seen: set[str | None] = field(default_factory=set)
    """Authorisations that came."""
    endpoint: str = ""

    def fetched(self) -> set[str]:
        """Files whose bytes were asked for."""
        return {name for method, name, _ in self.asked if method == "GET" and name != "info"}

    def siblings(self) -> list[dict[str, object]]:
        """The files as the information about a model has them."""
        return [
            {
                "rfilename": name,
                "size": len(data),
                "blobId": git_blob(data),
                **({"lfs": {"sha256": sha256(data), "size": len(data), "pointerSize": 134}} if is_large(name) else {}),
            }
            for name, data in self.files.items()
        ]


def is_large(name: str) -> bool:
    return PurePosixPath(name).suffix in LARGE


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def git_blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@contextmanager
def serving(hub: LocalHub) -> Iterator[LocalHub]:
    """The hub answers on a port of this machine until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nothing is said on stderr."""

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, body: bool) -> None:
            hub.seen.add(self.headers.get("Authorization"))
            path = unquote(urlsplit(self.path).path)
            info = f"/api/models/{hub.repository}/revision/"
            resolve = f"/{hub.repository}/resolve/{hub.commit}/"
            if path.startswith(info):
                self._info(path.removeprefix(info))
            elif path.startswith(resolve):
                self._file(path.removeprefix(resolve), body)
            else:
                self._refuse(404, "RepoNotFound")

        def _info(self, revision: str) -> None:
            hub.asked.append(("GET", "info", None))
            if revision not in (hub.commit, *hub.branches):
                self._refuse(404, "RevisionNotFound")
                return
            data = json.dumps({"id": hub.repository, "sha": hub.commit, "siblings": hub.siblings()}).encode()
            self._head(200, {"Content-Type": "application/json", "Content-Length": str(len(data))})
            self.wfile.write(data)

        def _file(self, name: str, body: bool) -> None:
            wanted = self.headers.get("Range")
            hub.asked.append((self.command, name, wanted))
            if hub.token is not None and self.headers.get("Authorization") != f"Bearer {hub.token}":
                self._refuse(401 if self.headers.get("Authorization") is None else 403, "GatedRepo")
                return
            whole = hub.files[name]
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
            data = bytes(len(whole) - start) if name in hub.damaged else whole[start:]
            fields = {"X-Repo-Commit": hub.commit, "ETag": f'"{sha256(whole) if is_large(name) else git_blob(whole)}"'}
            if start:
                fields["Content-Range"] = f"bytes {start}-{len(whole) - 1}/{len(whole)}"
            self._head(206 if start else 200, {**fields, "Content-Length": str(len(data)), "Accept-Ranges": "bytes"})
            if body:
                end = hub.cut.get(name)
                self.wfile.write(data if end is None else data[: max(0, end - start)])
                if end is not None and hub.stalls:
                    hub.stalled.set()
                    hub.released.wait(60)
                self.close_connection = True

        def _refuse(self, status: int, code: str) -> None:
            self._head(status, {"X-Error-Code": code, "Content-Length": "0"})

        def _head(self, status: int, fields: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in fields.items():
                self.send_header(name, value)
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
