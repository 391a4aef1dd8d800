"""The benchmark of the studies runs on a small scale and says what it measured."""

import json

from benchmarks.studies import main
from click.testing import CliRunner


def test_a_small_run() -> None:
    done = CliRunner().invoke(main, ["--pairs", "60", "--queries", "4", "--depth", "120"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output.splitlines()[-1])
    assert {name: found[name] for name in ("training_pairs", "splits", "queries", "depth")} == {
        "training_pairs": 48,
        "splits": 20,
        "queries": 4,
        "depth": 120,
    }
    assert all(found[f"seconds_{part}"] >= 0 for part in ("threshold_search", "pair_study", "grid", "retrieval_rows"))
