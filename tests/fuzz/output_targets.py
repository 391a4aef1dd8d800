"""Readers of what the program has written itself and finds again: outputs, their state, shards, stored values.

The valid files are made by the program's own writers, so that they are what it writes now.
"""

from collections.abc import Callable
from pathlib import Path

from formats import JSON, LINES, sqlite
from pan_scdg.jobs.compare import read_result
from pan_scdg.jobs.output.directory import OutputDirectory
from pan_scdg.jobs.output.mark import lock_output
from pan_scdg.jobs.shards import read_shards, write_shard
from pan_scdg.scoring.features import FeatureStore, load_gains, load_ids
from pan_scdg.store import Store
from target import Target

from pan_scdg.retrieval.candidates import FirstStage
from pan_scdg.retrieval.ranking import Ranked
from pan_scdg.scdg.aggregation import list_stored

JOB = {
    "task": "pairs",
    "version": "1",
    "input": "0" * 64,
    "profile": {"name": "a", "pairs": {"limit": 512, "q": 2.0}},
    "models": {"language_model": {"name": "tiny", "dtype": "float32", "fingerprint": "1" * 64}},
    "device": "cpu",
    "engine": "packed",
    "keep_gains": False,
    "on_error": "stop",
    "candidates": None,
    "limit": None,
}
DECISION = '{"suspicious": "s1", "source": "r1", "decision": true, "score": 1.5, "threshold": 0.5}\n'
XML = '<document reference="s1.txt"/>\n'
RESULTS = {"s1-r1.xml": XML, "tables/medians.csv": "a,b\n1,2\n", "decisions.jsonl": DECISION}
PRECIOUS = "not ours"


def _stage(output: OutputDirectory) -> None:
    output.start()
    for name, text in RESULTS.items():
        (output.staged / name).parent.mkdir(exist_ok=True)
        (output.staged / name).write_text(text)
    output.seal(list(RESULTS), ["memory was short"], {"done": 1, "of": 2, "what": "pairs"}, {"a": {"found": "b"}})


def _make_output(folder: Path) -> None:
    output = OutputDirectory(folder / "out", JOB)
    output.prepare()
    _stage(output)
    output.publish()
    (folder / "precious.txt").write_text(PRECIOUS)


def _make_interrupted(folder: Path) -> None:
    output = OutputDirectory(folder / "out", JOB)
    output.prepare()
    _stage(output)
    (folder / "precious.txt").write_text(PRECIOUS)


def _run_again(folder: Path, overwrite: bool) -> None:
    """What `run` does with an output: look, go on, publish."""
    output = OutputDirectory(folder / "out", JOB)
    with lock_output(output.path):
        if output.prepare(overwrite):
            return
        if output.needed:
            _stage(output)
        output.publish()


def _untouched(folder: Path, read: Callable[[], object]) -> None:
    """Read, and see to it that nothing outside of the output was changed, whether it is refused or not."""
    try:
        read()
    finally:
        if (folder / "precious.txt").read_text() != PRECIOUS or len(list(folder.iterdir())) != 2:
            raise AssertionError("something outside of the output was changed")


def _output(folder: Path) -> None:
    def read() -> None:
        read_result(folder / "out")
        _run_again(folder, overwrite=False)
        _run_again(folder, overwrite=True)

    _untouched(folder, read)


def _overwritten(folder: Path) -> None:
    _untouched(folder, lambda: _run_again(folder, overwrite=True))


def _interrupted(folder: Path) -> None:
    _untouched(folder, lambda: _run_again(folder, overwrite=False))


STAGE = {
    "q1": FirstStage({"bm25-full": [Ranked("d1", 2.5), Ranked("d2", 1.0)]}, [Ranked("d1", 2.5), Ranked("d2", 1.0)])
}


def _make_shards(folder: Path) -> None:
    for number in (1, 2):
        output = OutputDirectory(folder / str(number), {**JOB, "task": "retrieval", "shard": [number, 2]})
        output.prepare()
        output.start()
        with Store(folder / f"state{number}") as store:
            store.put([("a", b"[1.0, 2.0]")])
            store.use(["a"])
            output.seal(write_shard(output.staged, store, {"candidates.jsonl.gz": STAGE}))
        output.publish()


def _shards(folder: Path) -> None:
    found = read_shards([folder / "1", folder / "2"])
    found.read_dtype("language_model")
    found.check(found.job)
    found.read_candidates(["q1"])


def _make_study_shards(folder: Path) -> None:
    for number in (1, 2):
        job = {name: JOB[name] for name in ("models", "device", "engine")}
        output = OutputDirectory(folder / str(number), {**job, "task": "studies retrieval", "shard": [number, 2]})
        output.prepare()
        output.start()
        with Store(folder / f"state{number}") as store:
            store.put([("a", b"[1.0, 2.0]")])
            store.use(["a"])
            output.seal(write_shard(output.staged, store, {"candidates-01.jsonl.gz": STAGE}))
        output.publish()


def _study_shards(folder: Path) -> None:
    found = read_shards([folder / "1", folder / "2"], study=True)
    found.read_dtype("language_model")
    found.check(found.job)
    found.read_candidates(["q1"], "candidates-01.jsonl.gz")


def _absorb(folder: Path) -> None:
    with Store(folder / "state") as store:
        store.absorb(folder / "scores.sqlite")


STORED = LINES.packed_by(sqlite)
WANTED = list_stored("candidates")


def _stored(folder: Path) -> None:
    with Store(folder) as store:
        for key in ("a", "b"):
            FeatureStore(store, WANTED, key == "b", "none").load([key])
            store.read_notes([key])
        load_ids(store, "b")
        load_gains(store, "b")


OUTPUT, MARK, OWN = "pan_scdg.jobs.output.directory", "pan_scdg.jobs.output.mark", "pan_scdg.own_files"
COMPARED, SHARDS, STORE = "pan_scdg.jobs.compare", "pan_scdg.jobs.shards", "pan_scdg.store"
OUTPUTS = (
    Target(
        "mark",
        _output,
        {"out/.pan_scdg.json": JSON},
        (OUTPUT, MARK, OWN, COMPARED),
        made=_make_output,
        writes=True,
        rate=0.1,
    ),
    Target(
        "mark-overwritten",
        _overwritten,
        {"out/.pan_scdg.json": JSON},
        (OUTPUT, MARK, OWN),
        made=_make_output,
        writes=True,
        rate=0.1,
    ),
    Target(
        "interrupted",
        _interrupted,
        {"out/.pan_scdg/manifest.json": JSON, "out/.pan_scdg/job.json": JSON},
        (OUTPUT, MARK, OWN),
        made=_make_interrupted,
        writes=True,
        rate=0.1,
    ),
    Target(
        "interrupted-overwritten",
        _overwritten,
        {"out/.pan_scdg/manifest.json": JSON, "out/.pan_scdg/job.json": JSON},
        (OUTPUT, MARK, OWN),
        made=_make_interrupted,
        writes=True,
        rate=0.1,
    ),
    Target("shard-mark", _shards, {"1/.pan_scdg.json": JSON}, (SHARDS, MARK, OWN), made=_make_shards, rate=0.3),
    Target(
        "study-shard-mark",
        _study_shards,
        {"1/.pan_scdg.json": JSON},
        (SHARDS, MARK, OWN),
        made=_make_study_shards,
        rate=0.3,
    ),
    Target("decisions", read_result, {"decisions.jsonl": JSON}, (COMPARED, "pan_scdg.pan.detections"), rate=0.5),
    Target("scores", _absorb, {"scores.sqlite": STORED}, (STORE,), rate=0.25),
    Target("stored", _stored, {"scores.sqlite": STORED}, (STORE, "pan_scdg.scoring.features"), writes=True, rate=0.25),
)
