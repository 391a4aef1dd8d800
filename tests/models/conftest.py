"""What the tests of models share."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def alarm() -> Iterator[None]:
    """End a test that blocks on a pipe."""

    def ring(*_: object) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
