"""The packages of requirements/tools.lock, which `make audit` installs apart from the others."""

import os
import sys
from pathlib import Path

import pytest

TOOLS = Path(sys.prefix) / "tools"


@pytest.fixture(scope="session")
def tools() -> dict[str, str]:
    """Return an environment in which modules of tools/supply_chain run."""
    if not TOOLS.is_dir():
        pytest.skip("`make audit` has not installed its packages")
    return {**os.environ, "PYTHONPATH": str(TOOLS)}
