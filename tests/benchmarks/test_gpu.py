"""The benchmark of a GPU on a CPU: every part writes its table, and what is broken is found."""

import math
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
import torch
from benchmarks.scoring_models import check_weights, random_model
from click.testing import CliRunner, Result
from torch._subclasses.fake_tensor import FakeTensorMode

from benchmarks import gpu, gpu_attention, gpu_engines, gpu_head, gpu_rows, gpu_runs, gpu_texts
from pan_scdg.cli.commands import cli
from pan_scdg.lm import attention
from pan_scdg.retrieval.dense import search as dense_search
from tests.tolerances import skip_unless_computed

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"-?[\d,.]+(e[-+]\d+)?|nan|-?inf")
EXPECTED = {"attention": 8, "head": 8, "packed": 6, "overlap": 2, "long": 8, "texts": 5, "dense": 1, "runs": 1}
"""Rows of each part."""


def run(page: Path, *parts: str) -> Result:
    words = [word for part in parts for word in ("--part", part)]
    return CliRunner().invoke(gpu.main, ["--device", "cpu", "--shape", "tiny", "--page", str(page), *words])


def tables(page: Path) -> dict[str, list[dict[str, str]]]:
    """Part -> its rows."""
    found = {}
    for section in page.read_text(encoding="utf-8").split("\n### ")[1:]:
        lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line[:1] == "|"]
        found[section.split(" ")[0]] = [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]
    return found


def failures(page: Path) -> dict[str, list[dict[str, str]]]:
    found = {part: [row for row in rows if row["outcome"].startswith("FAILED")] for part, rows in tables(page).items()}
    return {part: rows for part, rows in found.items() if rows}


@pytest.fixture(autouse=True)
def one_model_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_texts, "MODELS", ("scdg-mini", "none"))


def test_every_part_writes_its_table_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_unless_computed("bfloat16")
    monkeypatch.setattr(socket.socket, "connect", None, raising=False)
    page = tmp_path / "gpu.md"
    page.write_text("# On a GPU\n")
    found = run(page)
    assert found.exit_code == 0, found.output
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# On a GPU\n\n## 20")
    assert f"torch {torch.__version__}" in text
    assert "\n    python -m benchmarks.gpu --device cpu --shape tiny\n" in text
    assert {part: len(rows) for part, rows in tables(page).items()} == EXPECTED
    for part, rows in tables(page).items():
        measured = [row for row in rows if not row["outcome"].startswith("not tried")]
        assert measured
        for row in measured:
            assert row["outcome"].startswith("ok"), (part, row)
            numbers = [float(cell.replace(",", "")) for cell in row.values() if NUMBER.fullmatch(cell)]
            assert len(numbers) >= 2
            assert all(map(math.isfinite, numbers))
        kept = [float(row["error"]) <= float(row["limit"]) for row in measured if row.get("error")]
        assert all(kept)
        assert kept or part in ("dense", "head", "runs")


def test_commands_share_the_time_of_their_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first takes all of it but a second, the next is ended, and the last is not begun."""
    now, given = 0.0, list[float]()

    def run_long(words: list[str], timeout: float, **_: Any) -> Any:
        nonlocal now
        given.append(timeout)
        now += min(timeout, gpu_runs.SECONDS - 1)
        if now >= gpu_runs.SECONDS:
            raise subprocess.TimeoutExpired(words, timeout)
        return subprocess.CompletedProcess(words, 0, "", "")

    clock = SimpleNamespace(monotonic=lambda: now, perf_counter=lambda: now)
    monkeypatch.setattr(gpu_runs, "time", clock)
    monkeypatch.setattr(gpu_runs, "_is_fetched", lambda _: True)
    monkeypatch.setattr(gpu_runs.subprocess, "run", run_long)
    outcomes = [row["outcome"] for row in gpu_runs.measure_rows("qwen3-8b", "cpu")]
    assert given == [gpu_runs.SECONDS, 1]
    assert gpu_runs.SECONDS < 8 * 60
    assert outcomes[0] == "ok"
    assert outcomes[1] == "FAILED: took more than 1 s, all that was left"
    assert outcomes[2] == f"not tried: the {gpu_runs.SECONDS} s of all commands are used up"


def test_commands_of_a_gpu_are_understood(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They take a minute on a CPU and are only parsed here."""
    called = []

    def invoke(self: click.Command, _: click.Context) -> None:
        if not isinstance(self, click.Group):
            called.append(self.name)

    monkeypatch.setattr(click.Command, "invoke", invoke)
    for command in gpu_runs.COMMANDS:
        cli.main([*command.split(), "--output", str(tmp_path), "--device", "cuda"], standalone_mode=False)
    assert called == ["demo", "run", "run"]


def see_the_future(q: Any, k: Any, v: Any, spans_q: Any, spans_k: Any, causal: bool, scale: float) -> Any:
    return attention.attend_sdpa(q, k, v, spans_q, spans_k, False, scale)


def scale_otherwise(q: Any, k: Any, v: Any, spans_q: Any, spans_k: Any, causal: bool, scale: float) -> Any:
    return attention.attend_sdpa(q, k, v, spans_q, spans_k, causal, 1.2 * scale)


def forget_the_prefix(q: Any, k: Any, v: Any, spans_q: Any, spans_k: Any, causal: bool, scale: float) -> Any:
    out, lse = attention.attend_sdpa(q, k, v, spans_q, spans_k, causal, scale)
    return out, lse if causal else torch.full_like(lse, -torch.inf)


def give_no_numbers(q: Any, k: Any, v: Any, spans_q: Any, spans_k: Any, causal: bool, scale: float) -> Any:
    out, lse = attention.attend_sdpa(q, k, v, spans_q, spans_k, causal, scale)
    return out * torch.nan, lse


@pytest.mark.parametrize("broken", [see_the_future, scale_otherwise, forget_the_prefix, give_no_numbers])
def test_a_broken_attention_is_found(
    broken: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(attention.BACKENDS, "sdpa", broken)
    found = run(tmp_path / "gpu.md", "attention", "packed")
    assert found.exit_code == 1
    failed = failures(tmp_path / "gpu.md")
    assert {row["type"] for row in failed["attention"]} == {"float32", "bfloat16"}
    assert {(row["engine"], row["type"]) for row in failed["packed"]} == {("packed", "float32"), ("packed", "bfloat16")}


def test_a_failing_part_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_memory(*_: str) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate | much")

    monkeypatch.setattr(gpu_engines, "random_model", fill_memory)
    assert run(tmp_path / "gpu.md", "packed", "overlap", "long", "dense").exit_code == 1
    found = {part: [row["outcome"] for row in rows] for part, rows in failures(tmp_path / "gpu.md").items()}
    line = "FAILED: OutOfMemoryError: CUDA out of memory."
    assert found == {"packed": [line], "overlap": [line], "long": [line]}
    assert tables(tmp_path / "gpu.md")["dense"][0]["outcome"] == "ok: identical"


def test_without_a_reference_nothing_is_called_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_unless_computed("bfloat16")

    def fail(*_: Any) -> None:
        raise RuntimeError("no kernel image is available")

    monkeypatch.setattr(gpu_engines.ReferenceEngine, "compute_log_probs", fail)
    assert run(tmp_path / "gpu.md", "packed", "long").exit_code == 1
    for rows in tables(tmp_path / "gpu.md").values():
        assert {row["outcome"] for row in rows if row["engine"] == "packed"} == {
            "not compared: the reference failed",
            "not tried: needs a GPU",
        }


def test_another_ranking_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search, calls = dense_search.search_chunks, 0

    def swap(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        rankings = search(*arguments, **options)
        if calls == 2:  # the first one of this device that is compared
            rankings[0][0], rankings[0][1] = rankings[0][1], rankings[0][0]
        return rankings

    monkeypatch.setattr(dense_search, "search_chunks", swap)
    assert run(tmp_path / "gpu.md", "dense").exit_code == 1
    assert failures(tmp_path / "gpu.md")["dense"][0]["outcome"] == "FAILED: 1 of 3 rankings differ"


def test_a_head_is_judged_by_numbers_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shift(by: float) -> gpu_head.Head:
        return gpu_head.Head(lambda *inputs: gpu_head.compute_chunked(*inputs) + by, "torch", True)

    def round_logits(hidden: torch.Tensor, weight: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return gpu_head.compute_chunked(hidden.bfloat16(), weight.bfloat16(), ids)

    def widen(hidden: torch.Tensor, weight: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return gpu_head.compute_chunked(hidden.float(), weight.float(), ids)

    others = {
        "alike": shift(5e-4),
        "off": shift(2e-3),
        "no number": shift(math.nan),
        "rounded": gpu_head.Head(round_logits, "torch", True),
        "wider": gpu_head.Head(widen, "torch", True),
        "absent": gpu_head.Head(round_logits, "no_such_kernels", True),
    }
    monkeypatch.setattr(gpu_head, "HEADS", {gpu_head.CHUNKED: gpu_head.HEADS[gpu_head.CHUNKED], **others})
    found = run(tmp_path / "gpu.md", "head")
    assert found.exit_code == 0, found.output
    rows = {(row["type"], row["head"]): row["outcome"] for row in tables(tmp_path / "gpu.md")["head"]}
    for dtype, inexact in (("float32", {"off", "no number", "rounded"}), ("bfloat16", {"off", "no number"})):
        judged = {name: rows[dtype, name] for name in others if name != "absent"}
        assert {name for name, outcome in judged.items() if outcome.startswith("ok: not exact")} == inexact
        assert all(outcome.endswith("faster") for outcome in judged.values())
        assert rows[dtype, "absent"] == "not tried: no_such_kernels is not installed"


def test_a_wrong_present_head_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = gpu_head.Head(lambda *inputs: gpu_head.compute_chunked(*inputs) + 0.5, "torch", True)
    monkeypatch.setitem(gpu_head.HEADS, gpu_head.CHUNKED, wrong)
    assert run(tmp_path / "gpu.md", "head").exit_code == 1
    assert {row["type"] for row in failures(tmp_path / "gpu.md")["head"]} == {"float32", "bfloat16"}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_are_drawn_and_known_to_be(dtype: str) -> None:
    lm = random_model("tiny", dtype, "cpu")
    check_weights(lm)
    lm.model.model.layers[1].mlp.up_proj.weight.data.zero_()
    with pytest.raises(ValueError, match=r"layers\.1\.mlp\.up_proj\.weight was not initialised"):
        check_weights(lm)
    lm = random_model("tiny", dtype, "cpu")
    lm.model.bfloat16()
    with pytest.raises(ValueError, match="rotary"):
        check_weights(lm)


@pytest.mark.parametrize(
    ("name", "capability", "obstacle"),
    [
        ("sdpa", (7, 5), None),
        ("varlen", (7, 5), "needs a GPU of the Ampere generation or newer"),
        ("varlen", (9, 0), None),
        ("flash_attention_2", (9, 0), "flash-attn is not installed"),
    ],
)
def test_what_a_gpu_lacks_is_named(
    name: str, capability: tuple[int, int], obstacle: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(gpu_rows, "find_spec", lambda _: None)
    assert gpu_rows.find_obstacle(name, "cuda") == obstacle


def test_the_head_names_gpu_driver_and_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 580.1.2\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
    memory = type("Properties", (), {"total_memory": 139 << 30})
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: memory)
    head = gpu.describe_run("cuda", "make gpu", "abc1234")
    assert re.search(r"## \d{4}-\d\d-\d\d: NVIDIA H200 \(sm_90\), commit abc1234\n", head)
    assert f"CUDA {torch.version.cuda}, driver 580.1.2, 139 GiB of memory" in head


@pytest.mark.parametrize(("name", "dtype"), [v for v in gpu_rows.VARIANTS if v[0] != "flash_attention_2"])
def test_types_and_devices_fit_on_a_gpu(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On tensors without contents, which need no GPU: kernels are those of CUDA, nothing is computed."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    with FakeTensorMode(allow_non_fake_inputs=True), torch.inference_mode():
        for layout in gpu_attention.choose_layouts("tiny"):
            inputs = gpu_attention.draw(layout, "tiny", dtype, "cuda")
            found = gpu_attention.attend(name, layout, *inputs, "cuda")
            expected = gpu_attention.write_out(layout, *inputs)
            assert found.shape == expected.shape == (sum(layout.own), 4, 16)
            assert (found.device, expected.dtype) == (expected.device, torch.float32)
            assert found.device.type == "cuda"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_one_line_and_no_page(tmp_path: Path) -> None:
    found = CliRunner().invoke(gpu.main, ["--page", str(tmp_path / "gpu.md")])
    assert found.exit_code == 2
    assert "no GPU was found" in found.output
    assert not (tmp_path / "gpu.md").exists()


def test_it_needs_little_beside_torch() -> None:
    """A machine with a GPU may have torch, transformers and nothing else of requirements.txt but these."""
    code = "import sys, benchmarks.gpu; print(*{name.partition('.')[0] for name in sys.modules})"
    words = [sys.executable, "-S", "-c", f"import sys; sys.path += {sys.path!r}; {code}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    foreign = set(done.stdout.split()) - sys.stdlib_module_names - {"benchmarks", "pan_scdg", "__main__"}
    assert {name for name in foreign if not name.startswith("_")} <= {"numpy", "click"}


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize(("there", "setup"), [(True, False), (False, True)])
def test_make_takes_an_interpreter_that_has_torch(there: bool, setup: bool, tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    interpreter = f'#!/bin/sh\nif [ $1 = -c ]; then exec {sys.executable} "$@"; fi\necho given "$@"\n'
    fake = {"tools/setup.sh": "echo set up\n", ".venv/bin/python": '#!/bin/sh\necho own "$@"\n', "given": interpreter}
    for name, text in fake.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    words = ["make", "--no-print-directory", "gpu", "PART=long", "COMMIT=abc"]
    environment = {**os.environ, "PYTHON": str(tmp_path / "given") if there else "no-such-python"}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        *(["set up"] if setup else []),
        f"{'given' if there else 'own'} -m benchmarks.gpu --part long --commit abc",
    ]
