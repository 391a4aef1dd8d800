"""Whatever a manifest or split file holds: its records, or one clear line with its name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from studies.data.news import read_news_pairs
from studies.data.pair_manifest import format_records, read_manifest
from studies.data.queries import read_folds
from studies.data.splits import read_parts
from studies.retention.instances import read_instances
from tests.studies.small_corpora import record

READERS: dict[str, Callable[[Path], Any]] = {
    "manifest": read_manifest,
    "news pairs": read_news_pairs,
    "instances": read_instances,
    "folds": lambda path: read_folds(path, {"1", "2"}),
    "split": lambda path: read_parts(path, {"a", "b"}),
}
GOOD = format_records([record("s", "r")]).encode()
LINES = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from(
        [b"", b"\n", b"null\n", b'{"fold": 1e400, "qid": 1}\n', b"pair_id,split\n", b"a,test\n", b'"\n', GOOD]
    ),
    st.tuples(st.integers(0, len(GOOD) - 1), st.binary(max_size=2)).map(
        lambda x: GOOD[: x[0]] + x[1] + GOOD[x[0] + 1 :]
    ),
)


def refusal(reader: Callable[[Path], Any], path: Path) -> UserError | None:
    try:
        reader(path)
    except UserError as e:
        return e
    return None


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(LINES, max_size=4))
def test_a_file_is_read_or_refused_in_one_line(name: str, tmp_path: Path, parts: list[bytes]) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"".join(parts))
    refused = refusal(READERS[name], path)
    assert refused is None or (refused.where == path and str(refused).isprintable())
