"""Inputs, models and the command line, as for the tests of jobs."""

from tests.jobs.conftest import (
    cli,
    encode,
    fast_encoder,
    finished,
    gain_tolerance,
    literal_log_probs,
    other_weights,
    own_environment,
    pairs_input,
    profile_with,
    records,
    retrieval_input,
    run,
    tiny_model,
    visible,
    write_retrieval,
)

__all__ = [
    "cli",
    "encode",
    "fast_encoder",
    "finished",
    "gain_tolerance",
    "literal_log_probs",
    "other_weights",
    "own_environment",
    "pairs_input",
    "profile_with",
    "records",
    "retrieval_input",
    "run",
    "tiny_model",
    "visible",
    "write_retrieval",
]
