"""Processes that have inherited a variable, found in /proc, and where they listen."""

from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

LISTENS = "0A"


def list_marked(mark: str) -> list[int]:
    """Return the processes whose environment contains a text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def list_listening(pids: Iterable[int]) -> set[str]:
    """Return the addresses at which processes accept connections."""
    sockets = set()
    for pid in pids:
        with suppress(OSError):
            sockets |= {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == LISTENS and f"socket:[{rest[5]}]" in sockets:
                found.add(_read_address(local.partition(":")[0]))
    return found


def _read_address(digits: str) -> str:
    """Return an address from the kernel's notation: groups of four bytes, each in this machine's order."""
    raw = b"".join(bytes.fromhex(digits[start : start + 8])[::-1] for start in range(0, len(digits), 8))
    if len(raw) == 4:
        return str(IPv4Address(raw))
    address = IPv6Address(raw)
    return str(address.ipv4_mapped or address)
