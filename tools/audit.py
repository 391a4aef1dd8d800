"""Ask for known vulnerabilities of every locked package: ``python -m tools.audit``.

pip-audit asks OSV, which is sent names and versions of packages and nothing else. Where OSV is not reached, one line
says that nothing was checked, and the exit code is 0. A vulnerability that .ci/accepted-vulnerabilities.txt does not
list means exit code 1.
"""

import argparse
import itertools
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tools.locks import LISTS, ROOT, Pin, find_lock, read_pins

ACCEPTED = ROOT / ".ci" / "accepted-vulnerabilities.txt"
ROW = re.compile(r"(\S+)\s+(\d{4}-\d\d-\d\d)\s+(\S.*)")
OSV = "https://api.osv.dev/v1/query"
NOT_REACHED = re.compile(r"Connection\w*Error|ConnectTimeout|ReadTimeout|ServiceError|HTTPError|JSONDecodeError")
SECONDS = 10


class Finding(NamedTuple):
    """A vulnerability of a locked package."""

    package: str
    names: frozenset[str]
    """Its id and aliases."""
    fixed: tuple[str, ...]


def read_accepted(path: Path) -> set[str]:
    """Return the ids that are accepted.

    Raises:
        ValueError: a line lacks its date or its reason.
    """
    accepted = set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            row = ROW.fullmatch(line.strip())
            if row is None:
                raise ValueError(f"{path.name}:{number}: not `ID YYYY-MM-DD package: reason`")
            accepted.add(row[1])
    return accepted


def split_pins(pins: Iterable[Pin]) -> list[list[Pin]]:
    """Return the pins, whatever Python they are for, in lists that have a package once, as pip-audit wants it."""
    versions: dict[str, dict[str, Pin]] = {}
    for pin in pins:
        versions.setdefault(pin.name, {})[pin.version] = pin
    rows = itertools.zip_longest(*(entries.values() for entries in versions.values()))
    return [[pin for pin in row if pin is not None] for row in rows]


def ask(pins: Iterable[Pin], address: str) -> tuple[list[dict[str, Any]], str]:
    """Return pip-audit's report on each package, and the reason if OSV was not reached.

    Raises:
        RuntimeError: pip-audit failed for another reason.
    """
    with tempfile.TemporaryDirectory() as folder:
        wanted, report = Path(folder) / "wanted.txt", Path(folder) / "report.json"
        wanted.write_text("".join(f"{pin.name}=={pin.version} --hash=sha256:{pin.hashes[0]}\n" for pin in pins))
        words = [sys.executable, "-m", "pip_audit", "--vulnerability-service", "osv", "--osv-url", address]
        words += ["--disable-pip", "--require-hashes", "--progress-spinner", "off", "--timeout", str(SECONDS)]
        words += ["--format", "json", "--output", str(report), "--requirement", str(wanted)]
        done = subprocess.run(words, capture_output=True, text=True)
        if report.is_file():
            return json.loads(report.read_text(encoding="utf-8"))["dependencies"], ""
    last = (done.stderr.strip().splitlines() or ["pip-audit says nothing"])[-1]
    if not NOT_REACHED.search(last):
        raise RuntimeError(f"pip-audit failed: {done.stderr[-2000:]}")
    return [], last


def find_vulnerabilities(reported: list[dict[str, Any]]) -> list[Finding]:
    """Return the vulnerabilities in what pip-audit reports."""
    return [
        Finding(
            f"{package['name']} {package['version']}", frozenset([v["id"], *v["aliases"]]), tuple(v["fix_versions"])
        )
        for package in reported
        for v in package.get("vulns", [])
    ]


def main() -> None:
    """Print the findings, one a line, and the number of packages that were checked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--osv-url", default=OSV)
    parser.add_argument("--accepted", type=Path, default=ACCEPTED)
    options = parser.parse_args()
    accepted = read_accepted(options.accepted)
    pins = [pin for requirements in LISTS for pin in read_pins(find_lock(requirements))]
    reported: list[dict[str, Any]] = []
    for part in split_pins(pins):
        answers, reason = ask(part, options.osv_url)
        if reason:
            print(f"audit: no vulnerability service was reached, nothing was checked ({reason[:160]})")
            return
        reported += answers
    checked = [package for package in reported if "vulns" in package]
    findings = find_vulnerabilities(checked)
    open_ones = [finding for finding in findings if not finding.names & accepted]
    for finding in open_ones:
        print(
            f"audit: {finding.package}: {', '.join(sorted(finding.names))}; fixed in {', '.join(finding.fixed) or '-'}"
        )
    known = f"{len(findings)} known vulnerabilities, {len(findings) - len(open_ones)} of them accepted"
    print(f"audit: {len(checked)} packages checked, {len(reported) - len(checked)} skipped: {known}")
    if open_ones:
        raise SystemExit(
            f"audit: upgrade (make lock), or list them with date and reason in {ACCEPTED.relative_to(ROOT)}"
        )


if __name__ == "__main__":
    main()
