"""The studies are an extra: registered by an entry point, and refused in one line without their packages."""

import importlib.util
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import click
import pytest

from pan_scdg.cli import cli, commands, run_command

ROOT = Path(__file__).parents[2]


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Pretend that these entry points are installed."""

    def install(*entries: EntryPoint) -> None:
        monkeypatch.setattr(commands, "entry_points", lambda group: entries)
        commands._find_registered.cache_clear()

    yield install
    commands._find_registered.cache_clear()


def test_the_entry_point_of_the_wheel_is_the_one_that_a_clone_uses() -> None:
    (own,) = commands.OWN
    assert (
        f'[project.entry-points."{own.group}"]\n{own.name} = "{own.value}"\n' in (ROOT / "pyproject.toml").read_text()
    )


def test_another_package_can_register_a_command(registered: Callable[..., None]) -> None:
    registered(EntryPoint("other", "pan_scdg.cli.tira:tira", commands.REGISTERED))
    context = click.Context(cli)
    assert {"other", "studies", "run"} <= set(cli.list_commands(context))
    assert cli.get_command(context, "other") is not None
    del cli.commands["other"]


def test_a_missing_package_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    real = importlib.util.find_spec

    def find(name: str, *more: Any) -> Any:
        return None if name == "statsmodels" else real(name, *more)

    monkeypatch.setattr("pan_scdg.errors.find_spec", find)
    assert run_command(["studies", "pairs", "--help"]) == 0
    capsys.readouterr()
    assert run_command(["studies", "pairs", "--examples", "--output", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert "the package statsmodels is not installed; install the extra: pip install 'pan_scdg[studies]'\n" in told
    assert told.count("\n") == 1
    assert not (tmp_path / "out").exists()
