"""The submissions in tira.yml, and the calls that they stand for; tests/container makes the calls."""

import shlex
import sys
from pathlib import Path
from string import Template
from typing import Any

import pytest
import yaml

from pan_scdg.cli import run_command
from pan_scdg.commit import find_commit
from pan_scdg.errors import UserError, UserErrors
from pan_scdg.jobs import tira as tira_submission
from pan_scdg.jobs.tira import choose_submission, make_call, read_manifest
from pan_scdg.profile import SHIPPED, load_profile
from pan_scdg.results.records import read_decisions

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / "tira.yml"
TEXT = b"The river rose in the night and took the bridge with it. In the morning nobody could cross to the mill.\n"
ENTRY = {
    "task": "pan25-generated-plagiarism-detection",
    "dataset": "spot-check",
    "profile": "offline",
    "command": "run --input $inputDataset --output $outputDir --profile offline",
    "models": [],
    "resources": "large-resources",
}


def written(tmp_path: Path, **changed: Any) -> Path:
    path = tmp_path / "tira.yml"
    entry = {name: value for name, value in {**ENTRY, **changed}.items() if value is not None}
    path.write_text(yaml.safe_dump({"submissions": {"one": entry}}), encoding="utf-8")
    return path


def test_the_shipped_manifest_has_an_entry_for_each_task_and_kind() -> None:
    found = read_manifest(MANIFEST)
    assert list(found) == ["pan26-leaderboard", "pan26-offline", "pan25-leaderboard", "pan25-offline"]
    for name, entry in found.items():
        assert entry.task == f"{name[:5]}-generated-plagiarism-detection"
        profile = load_profile(entry.profile)
        assert (entry.profile == "offline") == name.endswith("offline")
        assert bool(entry.models) == name.endswith("leaderboard")
        assert ("--device cuda" in entry.command) == name.endswith("leaderboard"), "never on a CPU unasked"
        assert ("--on-error negative" in entry.command) == name.startswith("pan25"), "retrieval leaves no query out"
        mounted = {model.partition("/")[2] for model in entry.models}
        dense = profile.retrieval.dense if name.startswith("pan26") and profile.retrieval else None
        needed = {profile.need_model().name, *([dense.model] if dense else [])}
        assert not entry.models or mounted == needed
        assert not any(model.startswith("meta-llama/") for model in entry.models), "nothing gated"


@pytest.mark.parametrize("name", ["pan26-leaderboard", "pan26-offline", "pan25-offline"])
def test_the_call_of_an_entry(name: str) -> None:
    entry = choose_submission(read_manifest(MANIFEST), name, MANIFEST)
    words = make_call(entry, ROOT, True, "--build-arg BASE_IMAGE=base")
    assert words[1:3] == ["code-submission", "--dry-run"]
    options = dict(zip(words[3:9:2], words[4:10:2], strict=True))
    assert options == {"--path": str(ROOT), "--task": entry.task, "--dataset": entry.dataset}
    arguments = f"--build-args=--build-arg REVISION={find_commit()} --build-arg BASE_IMAGE=base"
    assert words[9:12] == [arguments, "--command", entry.command]
    assert words[12:] == (["--mount-hf-model", *entry.models] if entry.models else [])
    assert "--dry-run" not in make_call(entry, ROOT, False)


@pytest.mark.usefixtures("real_encoder")
def test_a_pair_that_cannot_be_scored_leaves_the_others(tmp_path: Path) -> None:
    """The command of tira.yml without the container's entry point, on a document that is not UTF-8 and a good one."""
    given = tmp_path / "in"
    for name, text in (("susp/a.txt", b"\xff"), ("susp/b.txt", TEXT), ("src/c.txt", TEXT)):
        (given / name).parent.mkdir(parents=True, exist_ok=True)
        (given / name).write_bytes(text)
    (given / "pairs").write_text("a.txt c.txt\nb.txt c.txt\n", encoding="utf-8")
    command = read_manifest(MANIFEST)["pan25-offline"].command
    filled = Template(command).substitute(inputDataset=given, outputDir=tmp_path / "out")
    assert run_command(shlex.split(filled)[2:]) == 0
    assert {path.name for path in (tmp_path / "out").glob("*.xml")} == {"a-c.xml", "b-c.xml"}
    assert [decision.decision for decision in read_decisions(tmp_path / "out" / "decisions.jsonl")] == [False, True]


def test_the_client_understands_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own parser; what it does then would ask the network."""
    from tira.tira_cli import parse_args

    entry = read_manifest(MANIFEST)["pan26-leaderboard"]
    for dry_run in (True, False):
        words = make_call(entry, ROOT, dry_run, "--build-arg BASE_IMAGE=base")
        monkeypatch.setattr(sys, "argv", words)
        found = parse_args()
        assert (found.executable.__name__, found.dry_run) == ("code_submission_command", dry_run)
        assert (str(found.path), found.task, found.dataset) == (str(ROOT), entry.task, entry.dataset)
        assert (found.command, found.mount_hf_model) == (entry.command, entry.models)
        assert found.build_args == f"--build-arg REVISION={find_commit()} --build-arg BASE_IMAGE=base"


def test_a_profile_without_threshold_is_refused_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    for command in ("dry-run", "submit"):
        assert invoked(command, "pan25-leaderboard") == 2
        assert "has no threshold" in capsys.readouterr().err


def invoked(*arguments: str) -> int:
    """With the program's exit codes."""
    return run_command(["tira", *arguments])


def test_the_call_is_printed_and_its_failure_is_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    client = tmp_path / "tira-cli"
    client.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:])\nsys.exit(7)\n", encoding="utf-8")
    client.chmod(0o755)
    monkeypatch.setattr(tira_submission, "_find_client", lambda: str(client))
    monkeypatch.chdir(ROOT)
    assert invoked("dry-run", "pan25-offline") == 2
    said = capsys.readouterr().err
    assert f"{client} code-submission --dry-run --path {ROOT}" in said
    assert "tira-cli ended with 7" in said
    client.write_text(f"#!{sys.executable}\n", encoding="utf-8")
    assert invoked("submit", "pan25-offline") == 0


@pytest.mark.parametrize(
    ("error", "lines", "last"),
    [
        ("requests.exceptions.ConnectionError: host='www.tira.io'", 2, "error: TIRA cannot be reached. Connect this"),
        ("ValueError: The git repository is not clean.", 4, "error: tira-cli ended with 1. See its message above."),
    ],
)
def test_a_client_without_network_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    error: str,
    lines: int,
    last: str,
) -> None:
    client = tmp_path / "tira-cli"
    traceback = f"Traceback (most recent call last):\n{error}"
    client.write_text(f"#!{sys.executable}\nraise SystemExit({traceback!r})\n", encoding="utf-8")
    client.chmod(0o755)
    monkeypatch.setattr(tira_submission, "_find_client", lambda: str(client))
    monkeypatch.chdir(ROOT)
    assert invoked("dry-run", "pan25-offline") == 2
    said = capfd.readouterr().err.splitlines()
    assert (len(said), said[-1].startswith(last)) == (lines, True), said


def test_an_image_that_the_client_leaves_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    images = tmp_path / "images"
    images.write_text("old:latest\n<none>:<none>\n")
    for name, text in (("docker", f"cat {images}"), ("tira-cli", f"echo pan_scdg-1f3ab:latest >> {images}")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(tira_submission, "_find_client", lambda: str(tmp_path / "tira-cli"))
    monkeypatch.chdir(ROOT)
    assert invoked("dry-run", "pan25-offline") == 0
    said = capsys.readouterr().err.splitlines()[-1]
    assert (
        said == "note: the client left the image pan_scdg-1f3ab:latest; `docker rmi pan_scdg-1f3ab:latest` removes it"
    )


def test_without_a_name_the_entries_are_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert invoked("dry-run") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(read_manifest(MANIFEST))


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"task": None}, "submissions.one.task: Field required"),
        ({"gpu": "all"}, "submissions.one.gpu: Extra inputs are not permitted"),
        ({"dataset": "a b; rm"}, "submissions.one.dataset"),
        ({"models": ["no repository"]}, "submissions.one.models.0"),
        ({"command": ENTRY["command"] + ' "x"'}, "one.command contains a double quote"),
        ({"command": "run --profile offline --input $inputDataset"}, "one.command does not name $outputDir"),
        ({"profile": "pan26-daac"}, "does not run with the profile of the entry"),
    ],
)
def test_a_fault_in_the_manifest_is_named(tmp_path: Path, changed: dict[str, Any], what: str) -> None:
    path = written(tmp_path, **changed)
    with pytest.raises(UserErrors) as caught:
        read_manifest(path)
    assert what in str(caught.value)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    "text",
    [
        *("a: [", "", "- 1", "submissions: {}", "\x00", "!!python/object/apply:os.system [ls]"),
        *("a: 2025-13-01", "[" * 3000, "a: !!timestamp x", "a: !!int ''", "a: !!bool x", "a: &b [*b]"),
        "[" * (1 << 17),
    ],
)
def test_what_is_no_manifest(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tira.yml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"tira\.yml"):
        read_manifest(path)
    with pytest.raises(UserError, match="manifest does not exist"):
        read_manifest(tmp_path / "none.yml")


def test_a_profile_that_the_image_does_not_hold_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    """It would be missed in the container, after the build."""
    mine = tmp_path / "mine.toml"
    mine.write_bytes((SHIPPED / "offline.toml").read_bytes())
    path = written(tmp_path, profile=str(mine), command=ENTRY["command"].replace("offline", str(mine)))
    with pytest.raises(UserError, match=r"one\.profile is .*mine\.toml, which is not in the image. Give the file"):
        choose_submission(read_manifest(path), "one", path)


def test_a_calibrated_profile_is_in_the_image_while_it_is_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, mine = written(tmp_path), tmp_path / "mine.toml"
    mine.write_bytes((SHIPPED / "offline.toml").read_bytes())
    client, copy = tmp_path / "tira-cli", tmp_path / "model_cache" / "image" / "mine.toml"
    client.write_text(f"#!/bin/sh\ncmp {mine} {copy}\n", encoding="utf-8")
    client.chmod(0o755)
    monkeypatch.setattr(tira_submission, "_find_client", lambda: str(client))
    monkeypatch.chdir(path.parent)
    assert invoked("dry-run", "one", "--profile", str(mine)) == 0
    assert "--output $outputDir --profile /app/model_cache/mine.toml'" in capsys.readouterr().err
    assert not copy.exists()
    copy.write_text("another")
    assert invoked("submit", "one", "--profile", str(mine)) == 2
    assert copy.read_text() == "another"
    uncalibrated = str(SHIPPED / "pan25-qwen3-8b.toml")
    assert invoked("submit", "one", "--profile", uncalibrated) == 2
    assert "has no threshold" in capsys.readouterr().err


def test_the_command_takes_a_profile_whatever_spaces_it_has(tmp_path: Path) -> None:
    path = written(tmp_path, command=ENTRY["command"].replace("--profile ", "--profile  "))
    for name in ("my profile.toml", ".mine.toml", 'a"b.toml', "mine.toml"):
        (tmp_path / name).write_bytes((SHIPPED / "offline.toml").read_bytes())
        if name != "mine.toml":
            with pytest.raises(UserError, match="TIRA's command cannot contain"):
                choose_submission(read_manifest(path), "one", path, tmp_path / name)
    entry = choose_submission(read_manifest(path), "one", path, tmp_path / "mine.toml")
    assert entry.command.endswith("--profile  /app/model_cache/mine.toml")


def test_unknown_submissions_profiles_and_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, profile="unheard-of", command=ENTRY["command"].replace("offline", "unheard-of"))
    with pytest.raises(UserError, match="unheard-of"):
        choose_submission(read_manifest(path), "one", path)
    with pytest.raises(UserError, match="has no submission 'two'. Choose one of one"):
        choose_submission(read_manifest(path), "two", path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="tira-cli is not installed"):
        tira_submission._find_client()
