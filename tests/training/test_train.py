"""The training loop: a resumed run ends with the weights of an undisturbed one, and an export can be loaded."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from transformers import AutoModelForCausalLM

from training.start import Shape, copying_model
from training.train import export, main, train


@pytest.fixture
def work(packed: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(torch, "compile", lambda module: module)  # compiling takes minutes and changes nothing here
    target, tokenizer = packed
    shutil.copytree(target.parent, tmp_path / "one" / "packed")
    torch.manual_seed(0)
    counts, sample = torch.ones(len(tokenizer), dtype=torch.long), torch.randint(2, len(tokenizer), (2, 60))
    copying_model(counts, sample, Shape(layers=2)).save_pretrained(tmp_path / "one" / "start")
    tokenizer.save_pretrained(tmp_path / "one" / "start")
    return tmp_path / "one"


@pytest.mark.long
def test_a_resumed_run_ends_with_the_weights_of_an_undisturbed_one(work: Path) -> None:
    other = work.parent / "other"
    shutil.copytree(work, other)
    whole = train(work, steps=6, rows=4, length=40, minutes=10, rate=1.0)
    for _ in range(6):  # no minutes: each call stops behind one step
        resumed = train(other, steps=6, rows=4, length=40, minutes=0, rate=1.0)
    assert torch.load(other / "checkpoint.pt", weights_only=True)["step"] == 6
    for (name, a), (_, b) in zip(whole.named_parameters(), resumed.named_parameters(), strict=True):
        assert torch.equal(a, b), name
    start = AutoModelForCausalLM.from_pretrained(work / "start")
    assert not torch.equal(start.model.embed_tokens.weight, whole.model.embed_tokens.weight)


@pytest.mark.long
def test_an_export_in_pieces_holds_the_same_weights(work: Path) -> None:
    model = train(work, steps=1, rows=2, length=40, minutes=10, rate=1.0)
    export(model, work, work / "whole")
    export(model, work, work / "pieces", "1MB")
    assert len(list((work / "pieces").glob("*.safetensors"))) > 1
    one, other = (AutoModelForCausalLM.from_pretrained(work / n, dtype=torch.bfloat16) for n in ("whole", "pieces"))
    for (name, a), (_, b) in zip(one.named_parameters(), other.named_parameters(), strict=True):
        assert torch.equal(a, b), name


def test_a_work_folder_without_text_asks_for_data(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--work", str(tmp_path / "new")])
    assert result.exit_code == 2
    assert "give --data" in result.output
