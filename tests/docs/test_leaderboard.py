"""The page about a day on the leaderboard, line by line, with small random checkpoints in the place of the real ones.

The profiles keep everything but arithmetic, kind of tokenizer and probes. One pair cannot be scored. Arrays have two
jobs instead of eight; a stand-in for ``sbatch`` runs the scripts of examples/slurm one after the other, and their
commands in forked processes.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pan_scdg.scoring.pair_method import check_calibrated

from pan_scdg.jobs.tira import read_manifest
from pan_scdg.models.terrier_jars import find_jar_folder
from pan_scdg.pan.detections import read_decisions
from pan_scdg.profile import load_profile
from tests.docs.clone import Clone, Done
from tests.docs.pages import ROOT, find_blocks
from tests.stand_ins import FAST, FEW_TOKENS, write_checkpoint, write_profile

PAGE = ROOT / "docs" / "leaderboard.md"
SHORTER = {"--array=1-8": "--array=1-2", "--array=3,7": "--array=2", "SHARDS=8": "SHARDS=2"}
LINES = [
    line for block in find_blocks(PAGE) if "network" not in block.marker for line in block.body.splitlines() if line
]
SHIM = """#!{python}
import json, os, sys
names = ("SLURM_", "SHARDS")
request = {{"arguments": ["-m", "pan_scdg", *sys.argv[1:]]}}
request["environment"] = {{k: v for k, v in os.environ.items() if k.startswith(names)}}
open("request", "w").write(json.dumps(request))
done = json.loads(open("reply").read())
sys.stdout.write(done["stdout"]), sys.stderr.write(done["stderr"])
sys.exit(done["code"])
"""


def read_job(words: list[str]) -> tuple[str | None, list[str]]:
    """Return the array of a job, if it has one, and its script with arguments.

    Raises:
        ValueError: it does not wait, so that the next line would run too early, or has an option not known here.
    """
    end = next(place for place, word in enumerate(words) if not word.startswith("-"))
    options = dict(word.removeprefix("--").partition("=")[::2] for word in words[:end])
    if options.pop("wait", None) != "" or options.keys() - {"array"}:
        raise ValueError(f"--wait is missing, or another option than --array is there: {words}")
    return options.get("array"), words[end:]


class Cluster:
    """Runs the lines of the page in a clone."""

    def __init__(self, clone: Clone) -> None:
        self.clone = clone
        for name in ("request", "reply"):
            os.mkfifo(clone.folder / name)
        (clone.folder / "bin").mkdir()
        shim = clone.folder / "bin" / "pan-scdg"
        shim.write_text(SHIM.format(python=sys.executable))
        shim.chmod(0o755)
        Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        """Answer the requests of the scripts' commands."""
        while True:
            request = json.loads((self.clone.folder / "request").read_text())
            done = self.clone.call(request["arguments"], request["environment"])
            reply = {"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
            (self.clone.folder / "reply").write_text(json.dumps(reply))

    def run(self, line: str) -> Done:
        words = shlex.split(line)
        variables = dict(word.split("=") for word in words if re.match("[A-Z]+=", word))
        program, *arguments = words[len(variables) :]
        if program == "pan-scdg":
            return self.clone.call(["-m", "pan_scdg", *self._expand(arguments)])
        if program in ("cp", "sed"):
            return self._run_script([program, *arguments], {})
        assert program == "sbatch"
        array, script = read_job(arguments)
        if array is None:
            return self._run_script(script, {})
        first, _, last = array.partition("-")
        tasks = range(int(first), int(last or first) + 1)
        facts = {"MIN": tasks[0], "MAX": tasks[-1], "COUNT": len(tasks)}
        known = {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in facts.items()}
        for task in tasks:
            found = self._run_script(script, variables | known | {"SLURM_ARRAY_TASK_ID": str(task)})
            if found.returncode:
                break
        return found

    def _expand(self, words: list[str]) -> list[str]:
        found = [sorted(map(str, Path().glob(word))) if "*" in word else [word] for word in words]
        return [word for group in found for word in group]

    def _run_script(self, words: list[str], variables: dict[str, str]) -> Done:
        environment = {**os.environ, "PATH": f"{self.clone.folder / 'bin'}:{os.environ['PATH']}", **variables}
        how: Any = {"cwd": self.clone.folder, "env": environment, "capture_output": True, "text": True}
        done = subprocess.run(words, check=False, **how)
        return Done(done.returncode, done.stdout, done.stderr)


def add_bad_pair(folder: Path) -> None:
    """Add a pair whose suspicious document is empty, so that it cannot be scored."""
    name, source = "suspicious-document99999", next((folder / "src").iterdir()).stem
    (folder / "susp" / f"{name}.txt").touch()
    (folder / "truth" / f"{name}-{source}.xml").write_text(f'<document reference="{name}.txt"/>', encoding="utf-8")
    with open(folder / "pairs", "a", encoding="utf-8") as file:
        file.write(f"{name}.txt {source}.txt\n")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    jars = find_jar_folder()
    if not any(jars.glob("terrier-assemblies*")):
        pytest.skip("Terrier's jars are not here: python entrypoint.py models fetch terrier")
    places = {"PAN_SCDG_MODEL_CACHE": str(folder / "cache"), "PYTERRIER_HOME": str(jars)}
    clone = Clone(folder, **places, PAN_SCDG_STATE="", OMP_NUM_THREADS="1")
    for name in ("Qwen3-8B-Base", "Linq-Embed-Mistral"):
        write_checkpoint(name, folder / "cache" / name, **FEW_TOKENS)
    for name in ("pan25-qwen3-8b", "pan26-qwen3-8b"):
        path = folder / "pan_scdg" / "profile" / "shipped" / f"{name}.toml"
        write_profile(name, path, model=FAST, retrieval={"scored": 2})
    shutil.copytree(ROOT / "examples" / "slurm", folder / "examples" / "slurm")
    shutil.copy(ROOT / "tira.yml", folder)
    for name, source in (("pan25/train", "pan25-pairs/calibration"), ("pan25/test", "pan25-pairs/test")):
        shutil.copytree(folder / "examples" / source, folder / "data" / name)
        add_bad_pair(folder / "data" / name)
    shutil.copytree(folder / "examples" / "pan26-retrieval", folder / "data" / "pan26")
    yield Cluster(clone)
    clone.close()


@pytest.mark.long
def test_every_line_works_in_order(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cluster.clone.folder)
    for line in LINES:
        for long, short in SHORTER.items():
            line = line.replace(long, short)
        done = cluster.run(line)
        assert done.returncode == 0, f"{line}\n{done.stderr[-2000:]}"
    out = cluster.clone.folder / "out"
    decided = read_decisions(out / "pan25-test" / "merged" / "decisions.jsonl")
    assert [(record["score"] is None, record["decision"] is None) for record in decided].count((True, False)) == 1
    assert len(decided) == 5
    assert (out / "pan26" / "merged" / "run.txt.gz").is_file()
    entry = read_manifest(cluster.clone.folder / "tira.yml")["pan25-leaderboard"]
    shipped = cluster.clone.folder / "pan_scdg" / "profile" / "shipped" / f"{entry.profile}.toml"
    assert entry.profile != read_manifest(ROOT / "tira.yml")["pan25-leaderboard"].profile
    check_calibrated(load_profile(str(shipped)))


def test_every_job_is_waited_for_and_has_no_option_that_the_stand_in_ignores() -> None:
    jobs = [words[words.index("sbatch") + 1 :] for words in map(shlex.split, LINES) if "sbatch" in words]
    assert [read_job(words)[0] for words in jobs] == ["1-8", "1-8", None, "1-8", "3,7"]
    for option in ("--dependency=singleton", "--wait --dependency=afterany:7", "--array=1-8", "--wait --array=1-8 -W"):
        with pytest.raises(ValueError, match="--wait is missing, or another option"):
            read_job([*option.split(), "examples/slurm/merge.sh", "out"])


def test_runs_that_score_or_decide_pairs_go_on_without_a_bad_one() -> None:
    lines = [line for line in LINES if re.search(r"pan25/\w+ ", line) and ("-scdg run" in line or "shard.sh" in line)]
    assert len(lines) == 4
    assert all("--on-error negative" in line for line in lines)
