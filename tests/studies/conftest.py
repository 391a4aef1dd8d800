"""Matrices of the studies' tests are as small as those of the jobs' tests."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def small_matrices(one_thread: None) -> None:
    """Compute with one thread."""
