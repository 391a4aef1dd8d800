"""End a run at a chosen call, as a signal would."""

from typing import Any

import pytest


def interrupt_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, n: int, after: bool = False) -> list[int]:
    """Let the ``n``-th call of ``owner.name`` end the run, before or after its effect; counts the calls."""
    calls: list[int] = []
    real = getattr(owner, name)

    def counted(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == n and not after:
            raise KeyboardInterrupt
        result = real(*arguments, **named)
        if len(calls) == n and after:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(owner, name, counted)
    return calls
