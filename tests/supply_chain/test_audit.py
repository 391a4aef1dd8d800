"""The audit, with pip-audit itself and a service on this machine that knows one vulnerability."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tools.supply_chain import audit
from tools.supply_chain.locks import ALL, LISTS, ROOT, find_lock, read_pins

PACKAGE = "jinja2"
KNOWN = {
    "id": "PYSEC-2000-1",
    "aliases": ["CVE-2000-0001"],
    "summary": "made up",
    "affected": [
        {
            "package": {"name": PACKAGE, "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "9999"}]}],
        }
    ],
}
COUNT = len({pin[:2] for requirements in LISTS for pin in read_pins(find_lock(requirements))})


class Service(BaseHTTPRequestHandler):
    """Answers as OSV does: with the vulnerabilities of the package that is asked for."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps({"vulns": [KNOWN]} if asked["package"]["name"] == PACKAGE else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def service() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def run(environment: dict[str, str], *more: str) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-m", "tools.supply_chain.audit", *more]
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.long
def test_a_known_vulnerability_fails_unless_it_is_accepted(tools: dict[str, str], service: str, tmp_path: Path) -> None:
    done = run(tools, "--osv-url", service)
    (pin,) = [pin for pin in read_pins(find_lock(ALL)) if pin.name == PACKAGE]
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f"audit: {PACKAGE} {pin.version}: CVE-2000-0001, PYSEC-2000-1; fixed in 9999",
        f"audit: {COUNT} packages checked, 0 skipped: 1 known vulnerabilities, 0 of them accepted",
    ]
    assert done.stderr.endswith("in .ci/accepted-vulnerabilities.txt\n")
    (tmp_path / "accepted.txt").write_text("CVE-2000-0001 2000-01-02 jinja2: templates are our own\n")
    done = run(tools, "--osv-url", service, "--accepted", str(tmp_path / "accepted.txt"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("1 known vulnerabilities, 1 of them accepted\n")


def test_without_a_service_one_line_says_so(tools: dict[str, str]) -> None:
    done = run(tools, "--osv-url", "http://127.0.0.1:9")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("audit: no vulnerability service was reached, nothing was checked (")
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("line", ["CVE-2000-0001", "CVE-2000-0001 because", "CVE-2000-0001 2000-01-02"])
def test_an_exception_without_date_or_reason_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "accepted.txt").write_text(f"# a comment\n{line}\n")
    with pytest.raises(ValueError, match=r"accepted.txt:2: not `ID YYYY-MM-DD package: reason`"):
        audit.read_accepted(tmp_path / "accepted.txt")


def test_the_exceptions_of_this_project_can_be_read() -> None:
    audit.read_accepted(audit.ACCEPTED)
