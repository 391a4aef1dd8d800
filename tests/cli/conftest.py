"""The small inputs of the jobs, and the command line called in this process."""

from tests.jobs.conftest import (  # noqa: F401
    cli,
    fast_encoder,
    finished,
    own_environment,
    pairs_input,
    profile_with,
    records,
    retrieval_input,
    run,
    source,
    visible,
    write_retrieval,
)
