"""The state: groups are whole or absent, values outlive the process, and what cannot be used is said at the start."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg import store as store_module
from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.store import Store, make_key, pack_array, unpack_array

ROOT = Path(__file__).parents[1]
DTYPES = (np.float16, np.float32, np.float64, np.int64, np.uint8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def _python(code: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start ``code`` in a Python of its own, which finds the package."""
    return subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=ROOT, text=True, **options)


def test_what_is_put_is_there_after_reopening(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "state"
    with Store(folder) as store:
        assert store.get("a") is None
        store.put([("a", b"1"), ("b", b"\x00\xff")])
        store.put([("a", b"2")])
        assert store.get("a") == b"2"
    with Store(folder) as store:
        assert (store.get("a"), store.get("b"), store.get("c")) == (b"2", b"\x00\xff", None)


def test_a_group_whose_making_fails_leaves_nothing(tmp_path: Path) -> None:
    def items() -> Iterator[tuple[str, bytes]]:
        yield "kept", b"new"
        yield "fresh", b"1"
        raise RuntimeError("half-way")

    with Store(tmp_path) as store:
        store.put([("kept", b"old")])
        with pytest.raises(RuntimeError, match="half-way"):
            store.put(items())
        assert (store.get("kept"), store.get("fresh")) == (b"old", None)
        store.put([("fresh", b"2")])
        assert store.get("fresh") == b"2", "the store stays usable"


KILLED_HALF_WAY = """
import os, pathlib, signal, sys
from pan_scdg.store import Store

def items():
    for i in range(200):
        yield f"second-{i}", os.urandom(5000)
    os.kill(os.getpid(), signal.SIGKILL)

store = Store(pathlib.Path(sys.argv[1]))
store.put((f"first-{i}", b"x") for i in range(3))
store.put(items())
"""


def test_a_kill_in_the_middle_of_a_group_leaves_all_former_groups_and_nothing_of_this_one(tmp_path: Path) -> None:
    assert _python(KILLED_HALF_WAY, str(tmp_path)).wait() == -signal.SIGKILL
    with Store(tmp_path) as store:
        assert [store.get(f"first-{i}") for i in range(3)] == [b"x"] * 3
        assert all(store.get(f"second-{i}") is None for i in range(200))


HOLDER = """
import pathlib, sys
from pan_scdg.store import Store

with Store(pathlib.Path(sys.argv[1])):
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_while_the_first_has_the_state(tmp_path: Path) -> None:
    with _python(HOLDER, str(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(UserError, match="another run is using the state; wait for it"):
            Store(tmp_path)
        holder.communicate()  # ends its input, at which it lets go
    with Store(tmp_path) as store:
        assert store.get("anything") is None


def test_a_failed_opening_lets_go_of_the_lock(tmp_path: Path) -> None:
    (tmp_path / "scores.sqlite").write_bytes(b"no database at all, but long enough to be taken for one" * 40)
    for _ in range(2):
        with pytest.raises(
            UserError, match=r"scores\.sqlite: the state cannot be used: file is not a database; delete"
        ):
            Store(tmp_path)
    (tmp_path / "scores.sqlite").unlink()
    Store(tmp_path).close()


def test_damage_that_is_met_later_is_a_user_error_too(tmp_path: Path) -> None:
    keys = [f"{i:05d}" for i in range(2000)]
    with Store(tmp_path) as store:
        store.put((key, os.urandom(500)) for key in keys)
    file = tmp_path / "scores.sqlite"
    data = bytearray(file.read_bytes())
    middle = len(data) // 2 & -4096
    data[middle : middle + 40960] = b"\xa5" * 40960  # ten pages that opening does not touch
    file.write_bytes(data)
    with Store(tmp_path) as store:
        with pytest.raises(UserError, match=r"scores\.sqlite: the state cannot be read: .*; delete it and run again"):
            [store.get(key) for key in keys]
        with pytest.raises(UserError, match="cannot store a result: "):
            store.put((key, b"new") for key in keys)


def test_a_full_disk_is_a_user_error_and_costs_only_the_last_group(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.put([("a", b"1")])
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages + 2}")  # SQLite then answers as on a full disk
        with pytest.raises(UserError, match="cannot store a result: database or disk is full"):
            store.put([("b", b"1"), ("c", bytes(100_000))])
        assert (store.get("a"), store.get("b"), store.get("c")) == (b"1", None, None)


class _WithoutLog(sqlite3.Connection):
    """A database on a file system without shared memory: SQLite answers with another journal mode, and no error."""

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        return super().execute("SELECT 'delete'" if "journal_mode" in sql else sql, *arguments)


def test_a_file_system_without_write_ahead_log_is_noticed_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sqlite3.connect
    monkeypatch.setattr("pan_scdg.store.sqlite3.connect", lambda *a, **k: real(*a, **k, factory=_WithoutLog))
    with pytest.raises(UserError, match="write-ahead log refused, journal mode is delete; .* on a local disk"):
        Store(tmp_path)


def test_a_file_system_without_locks_is_noticed_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("pan_scdg.locks.fcntl.flock", refuse)
    with pytest.raises(UserError, match=r"has no file locks \(Function not implemented\)"):
        Store(tmp_path)


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_folder_that_cannot_be_made_is_a_user_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="cannot write the state: .*; choose another --state folder"):
        Store(tmp_path / name)


def test_every_part_of_a_key_counts_and_their_order_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"text": "a", "window": {"words": 8, "stride": 4}, "model": "f" * 64, "q": None}
    key = make_key("pair", parts)
    others = [
        make_key("candidate", parts),
        make_key("pair", {**parts, "text": "b"}),
        make_key("pair", {**parts, "window": {"words": 8, "stride": 5}}),
        make_key("pair", {**parts, "model": "e" * 64}),
        make_key("pair", {**parts, "q": 0}),
        make_key("pair", {k: v for k, v in parts.items() if k != "q"}),
        make_key("pair", {**parts, "more": 1}),
    ]
    monkeypatch.setattr(store_module, "ARITHMETIC", store_module.ARITHMETIC + 1)
    others.append(make_key("pair", parts))
    monkeypatch.undo()
    assert len({key, *others}) == 1 + len(others)
    assert make_key("pair", dict(reversed(parts.items()))) == key
    assert len(key) == 64


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(), JSON, max_size=4), st.text(), JSON)
def test_a_changed_part_changes_the_key(parts: dict[str, Any], name: str, value: Any) -> None:
    changed = {**parts, name: value}
    # 0, 0.0 and False are equal in Python and different in JSON
    same = json.dumps(parts, sort_keys=True) == json.dumps(changed, sort_keys=True)
    assert (make_key("k", parts) == make_key("k", changed)) == same


def test_text_digest_is_sha256_of_utf8_and_takes_half_surrogates() -> None:
    assert hash_text("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert hash_text("\ud800") != hash_text("\ud801")


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_arrays_come_back_as_they_were(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    shape = tuple(data.draw(st.lists(st.integers(0, 4), max_size=3)))
    size = int(np.prod(shape)) * dtype.itemsize
    array = np.frombuffer(data.draw(st.binary(min_size=size, max_size=size)), dtype).reshape(shape)
    back = unpack_array(pack_array(array))
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_objects_are_neither_packed_nor_unpacked() -> None:
    with pytest.raises(ValueError, match="allow_pickle=False"):
        pack_array(np.array([{"a": 1}], dtype=object))


def test_exported_entries_are_absorbed_and_the_file_depends_on_them_alone(tmp_path: Path) -> None:
    items = {f"key {i}": bytes([i]) * 5000 for i in range(40)}
    with Store(tmp_path / "one") as one, Store(tmp_path / "two") as two:
        one.put(items.items())
        two.put(reversed([*items.items(), ("more", b"more")]))
        one.use([*items, "not there", "key 3"])
        two.use(reversed(items))
        one.export(tmp_path / "first.sqlite")
        two.export(tmp_path / "second.sqlite")
    assert (tmp_path / "first.sqlite").read_bytes() == (tmp_path / "second.sqlite").read_bytes()
    with Store(tmp_path / "three") as three:
        three.put([("key 1", b"former"), ("other", b"kept")])
        three.absorb(tmp_path / "first.sqlite")
        assert {key: three.get(key) for key in [*items, "other", "more"]} == {**items, "other": b"kept", "more": None}
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == ["first.sqlite", "second.sqlite"]


def test_a_damaged_export_is_a_user_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "scores.sqlite"
    path.write_bytes(b"no database" * 1000)
    with Store(tmp_path / "state") as store, pytest.raises(UserError, match=r"scores\.sqlite: cannot be read"):
        store.absorb(path)


def test_an_export_onto_a_full_disk_is_a_user_error(tmp_path: Path) -> None:
    with Store(tmp_path / "state") as store, pytest.raises(UserError, match="cannot be written"):
        store.export(tmp_path / "no folder" / "scores.sqlite")


def test_a_file_of_another_version_is_one_line_and_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, exported = tmp_path / "state", tmp_path / "exported.sqlite"
    with Store(state) as store:
        store.put([("a", b"1")])
        store.use(["a"])
        store.export(exported)
    monkeypatch.setattr(store_module, "ARITHMETIC", store_module.ARITHMETIC + 1)
    with pytest.raises(UserError, match=r"/state: was written by another version; choose a new --state folder"):
        Store(state)
    again = r"/exported\.sqlite: was written by another version; run the shard again with --overwrite"
    with Store(tmp_path / "new") as store, pytest.raises(UserError, match=again):
        store.absorb(exported)
    monkeypatch.undo()
    with Store(state) as store:
        assert store.get("a") == b"1"
    with closing(sqlite3.connect(state / "scores.sqlite")) as db:
        db.execute("PRAGMA user_version = 0")  # as before versions were noted
    with pytest.raises(UserError, match="was written by another version"):
        Store(state)
