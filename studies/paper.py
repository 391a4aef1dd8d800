"""``paper``: all tables of the paper by the commands that docs/studies.md lists, in their order.

A command whose output exists is complete and left out; the tables are made again, from all results that exist. Each
command is a process of its own, so that the memory of a GPU is free for the next one. A row that cannot be computed
here, for lack of a model, a GPU or an endpoint, is named in its table.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.evaluation.report import format_table
from pan_scdg.methods.chat import URL
from pan_scdg.models.catalogue import CATALOGUE
from pan_scdg.models.devices import look_for_gpus
from pan_scdg.models.find import SHORT, describe_size, find_encoder, find_model
from pan_scdg.profile import load_profile
from studies.beside import PRINTED, VERDICTS, list_paper_rows
from studies.pairs import name_method
from studies.retrieval import RERANKED
from studies.tables import TABLES as REPORT

TABLES = ("pairs", "same-topic", "retrieval", "retention")
TRANSFORMERS5 = "Ministral-3-8B-Base-2512"
"""The model whose architecture the pinned transformers lacks."""
LITERAL = ("--engine", "reference")
"""One input at a time, as in the paper."""
LOG = "preflight.txt"
PLAN = ("output", "needs", "hours", "missing here")
"""Columns of the plan."""
STATE = ("table", "row", "reproduced, or what it needs")
"""Columns of the last table."""
HOURS = re.compile(r"(score|encode) about [\d,]+ tokens: ([\d.e+-]+) h")


class Rows(NamedTuple):
    """The results that the tables are made from; those of mappings are profiles by the name of their folder."""

    prepare: tuple[str, ...]
    """Options of the command."""
    retrieval: str
    """The input of retrieval, below the data."""
    pairs: Mapping[str, str]
    topic: Mapping[str, str]
    """On the news, and on PAN25 unless they are among the pairs."""
    first_stages: Mapping[str, str]
    """By the name of the row; the last one is reranked by its own gains."""
    indexes: Mapping[str, tuple[str, tuple[str, ...]]]
    """The profile of each index by the name of its folder, and the first stages that search it."""
    second: str
    """The other first stage that is reranked."""
    retention: Mapping[str, str]
    literal: tuple[str, ...]
    """Options of language models."""
    preflights: tuple[str, ...]
    """Profiles whose speed is measured."""
    are_the_paper_s: bool
    """Every row of the paper is one of these."""


_LANGUAGE_MODELS = {
    "qwen": "pan25-qwen3-8b",
    "ministral": "pan25-ministral-3-8b",
    "llama": "pan25-llama-3.1-8b",
}
_LEXICAL = {name: f"pan25-{name}" for name in ("bm25", "containment", "gram-logistic")}
PAPER = Rows(
    prepare=("--data", "DATA"),
    retrieval="pan26",
    pairs={
        "char-ngrams": "pan25-char-ngrams",
        "bm25": "pan25-bm25",
        "linq": "pan25-linq",
        **{mode: f"pan25-plagbench-{mode}" for mode in ("zero", "zero-cot", "few", "few-cot")},
        **_LANGUAGE_MODELS,
    },
    topic={**_LEXICAL, "qwen": "pan25-qwen3-8b"},
    first_stages={
        "BM25-full": "pan26-bm25-full",
        "BM25-sentence": "pan26-bm25-sentence",
        "Dense-full": "pan26-bge-m3-full",
        "Dense-sentence": "pan26-bge-m3-sentence",
        "CombSUM": "pan26-combsum",
        "Linq": "pan26-linq-sentence",
        "RRF": "pan26-rrf",
        "DAAC": "pan26-qwen3-8b",
    },
    indexes={
        "index-bge-m3": ("pan26-combsum", ("Dense-full", "Dense-sentence", "CombSUM")),
        "index": ("pan26-qwen3-8b", ("Linq", "RRF", "DAAC")),
    },
    second="RRF",
    retention={name: _LANGUAGE_MODELS[name] for name in ("qwen", "llama", "ministral")},
    literal=LITERAL,
    preflights=("pan25-linq", *_LANGUAGE_MODELS.values(), "pan26-bge-m3-sentence", "pan26-qwen3-8b"),
    are_the_paper_s=True,
)
EXAMPLES = Rows(
    prepare=("--examples", "--instances", "2", "--seeds", "1"),
    retrieval="pan26-retrieval",
    pairs={"char-ngrams": "pan25-char-ngrams", "bm25": "pan25-bm25", "minilm": "pan25-minilm", "scdg": "scdg-mini"},
    topic={**_LEXICAL, "scdg": "scdg-mini"},
    first_stages={"BM25-full": "pan26-bm25-full", "BM25-sentence": "pan26-bm25-sentence", "DAAC": "offline"},
    indexes={},
    second="BM25-sentence",
    retention={"scdg": "scdg-mini"},
    literal=(),
    preflights=(),
    are_the_paper_s=False,
)
"""Small data, and small models in the place of the paper's."""


class Step(NamedTuple):
    """A command of the sequence."""

    words: tuple[str, ...]
    tables: tuple[str, ...]
    """Those that need it."""
    output: Path
    """What exists if the command is complete."""
    row: str = ""
    """The name of its result in the tables; empty: it is no row."""

    @property
    def profile(self) -> str | None:
        """Return the profile of a command that computes."""
        return self.words[self.words.index("--profile") + 1] if "--profile" in self.words else None

    @property
    def makes_table(self) -> bool:
        """Return True for a command that makes a table from results."""
        return self.words[:3] == ("python", "-m", "studies") and self.words[3] in TABLES

    @property
    def inputs(self) -> list[Path]:
        """Return what must exist before a command that computes."""
        names = ("--input", "--index", "--candidates", "--scored")
        paths = [path for name, path in zip(self.words, self.words[1:]) if name in names]
        paths += [self.words[-1]] if self.words[3:4] == ("rest",) else []
        return [Path(path) for path in paths if Path(path) != self.output]


class _Plan:
    """Makes the steps of each table, in the order in which they run.

    Args:
        rows: of the tables.
        data: the folder of the archives.
        output: the folder of all results.
    """

    def __init__(self, rows: Rows, data: str, output: str) -> None:
        self.rows, self.data, self.output = rows, data, output
        self.prepared, self.source = f"{output}/data", f"{data}/{rows.retrieval}"
        prepared = self.prepared
        self.inputs = {
            "pairs": f"{prepared}/pan25",
            "news": f"{prepared}/multinews",
            "retention": f"{prepared}/retention",
        }

    def list_steps(self) -> list[Step]:
        """Return all steps; see `list_steps`."""
        pairs = self._run_pairs("pairs", "pairs", self.rows.pairs)
        retention = self._run_pairs("retention", "retention", self.rows.retention, "--keep-gains")
        tables = [
            *pairs,
            self._tabulate_pairs("pairs", pairs),
            *self._list_topic(pairs),
            *self._list_retrieval(),
            *retention,
            self._tabulate_pairs("retention", retention),
        ]
        options = [self.data if word == "DATA" else word for word in self.rows.prepare]
        prepare = _make(TABLES, "python -m studies prepare", *options, "--output", self.prepared)
        return [prepare, *self._list_preflights(tables), *tables]

    def _list_topic(self, pairs: Sequence[Step]) -> list[Step]:
        """Return what the table about pairs of the same topic needs beside the results of the pairs."""
        profiles = {name: profile for name, profile in self.rows.topic.items() if name not in self.rows.pairs}
        more = self._run_pairs("same-topic", "pairs", profiles)
        news = self._run_pairs("same-topic", "news", self.rows.topic)
        both = [*(step for step in pairs if "same-topic" in step.tables), *more, *news]
        return [*more, *news, self._tabulate_pairs("same-topic", both)]

    def _list_retrieval(self) -> list[Step]:
        """Return the indexes, the first stages, the candidates of none that is scored, and the table."""
        rows, output = self.rows, self.output
        *_, (last, reranked) = rows.first_stages.items()
        indexes, index_of = list[Step](), dict[str, tuple[str, str]]()
        for folder, (profile, searching) in rows.indexes.items():
            index = ("--index", f"{output}/{folder}")
            words = ("--input", self.source, "--profile", profile, *index)
            indexes.append(_make(("retrieval",), "pan-scdg index", *words))
            index_of |= dict.fromkeys(searching, index)
        stages = []
        for name, profile in rows.first_stages.items():
            options = (*index_of.get(name, ()), *(rows.literal if name == last else ()))
            stages.append(self._run("retrieval", f"retrieval/{name.lower()}", profile, *options, row=name))
        of_row = {step.row: str(step.output) for step in stages}
        rest = f"{output}/retrieval/rest.txt.gz"
        left = ("--scored", of_row[last], "--output", rest, of_row[rows.second])
        options = (
            *("--data", self.source, "--folds", f"{self.prepared}/pan26/folds.jsonl"),
            *("--gains", f"{output}/retrieval/rest", "--rerank", rows.second),
        )
        return [
            *indexes,
            *stages,
            _make(("retrieval",), "python -m studies rest", *left),
            self._run("retrieval", "retrieval/rest", reranked, "--candidates", rest, *rows.literal),
            self._tabulate("retrieval", options, [f"{row}={path}" for row, path in of_row.items()]),
        ]

    def _list_preflights(self, steps: Sequence[Step]) -> list[Step]:
        """Return the check of each profile on this machine, for the tables of the steps with its models."""
        preflights = []
        for profile in self.rows.preflights:
            where = self.source if profile.startswith("pan26") else self.inputs["pairs"]
            words = ("--profile", profile, "--input", where, "--output", f"{self.output}/preflight/{profile}")
            models = load_profile(profile).list_models()
            served = {table for step in steps if step.profile and _list_models(step) == models for table in step.tables}
            preflights.append(_make(sorted(served), "pan-scdg preflight", *words))
        return preflights

    def _run(self, table: str, folder: str, profile: str, *options: str, row: str = "") -> Step:
        """Return a run whose result is a row of a table."""
        group, _, name = folder.partition("/")
        served = [table, *(["same-topic"] if table == "pairs" and name in self.rows.topic else [])]
        where = self.inputs.get(group, self.source)
        words = ("--input", where, "--profile", profile, *options, "--output", f"{self.output}/{folder}")
        return _make(served, "pan-scdg run", *words, row=row)

    def _run_pairs(self, table: str, group: str, profiles: Mapping[str, str], *options: str) -> list[Step]:
        """Return the runs that score a group of pairs by each profile."""
        steps = []
        for name, profile in profiles.items():
            opened = load_profile(profile)
            literal = self.rows.literal if opened.gains is not None else ()
            row = opened.need_model().name if table == "retention" else name_method(opened)
            steps.append(self._run(table, f"{group}/{name}", profile, *literal, "--scores-only", *options, row=row))
        return steps

    def _tabulate(self, table: str, options: Sequence[str], results: Sequence[str]) -> Step:
        where = ("--output", f"{self.output}/tables/{table}", "--overwrite")
        return _make((table,), f"python -m studies {table}", *options, *where, *results)

    def _tabulate_pairs(self, table: str, results: Sequence[Step]) -> Step:
        return self._tabulate(table, ("--prepared", self.prepared), [str(step.output) for step in results])


def _make(tables: Sequence[str], command: str, *words: str, row: str = "") -> Step:
    """Return the step of a command."""
    named = words.index("--index" if command == "pan-scdg index" else "--output")
    return Step((*command.split(), *words), tuple(tables), Path(words[named + 1]), row)


def list_steps(rows: Rows, data: str, output: str) -> list[Step]:
    """Return the sequence: the data, the speed of the models, and for each table its results and the table itself."""
    return _Plan(rows, data, output).list_steps()


def adapt_table(step: Step, results: Sequence[Step]) -> Step | None:
    """Return the command of a table with the results that exist, and the names of the others; None if none exists.

    A row of `same-topic` needs both results of its profile.
    """
    own = [one for one in results if one.row and step.words[3] in one.tables]
    lacking = {one.row for one in own if not one.output.exists()}
    if len(lacking) == len({one.row for one in own}):
        return None
    paths = {str(one.output) for one in own if one.row in lacking}
    words = [word for word in step.words if word.rpartition("=")[2] not in paths]
    if "--gains" in words:
        at = words.index("--gains")
        if not Path(words[at + 1]).exists() or words[at + 3] in lacking:
            del words[at : at + 4]
    at = words.index("--overwrite") + 1
    named = [word for row in dict.fromkeys(one.row for one in own if one.row in lacking) for word in ("--missing", row)]
    return step._replace(words=(*words[:at], *named, *words[at:]))


class Needs(NamedTuple):
    """The needs of a profile, and those that are missing here."""

    texts: list[str]
    missing: list[str]


def list_needs(step: Step) -> Needs:
    """Return the models with their revisions, licence gate, endpoint, library and GPU that a command needs."""
    needs = Needs([], [])
    if step.profile is None:
        return needs
    profile = load_profile(step.profile)
    for name in _list_models(step):
        published = CATALOGUE.get(name)
        if published is not None:
            revision = f" at {published.commit[:SHORT]}" if published.commit else ""
            gate = ", gated" if published.gated else ""
            needs.texts.append(f"{name}{revision} ({describe_size(published.size)}{gate})")
            try:
                (find_encoder if published.encoder else find_model)(name)
            except UserError:
                login = " (accept its licence, set HF_TOKEN)" if published.gated else ""
                needs.missing.append(f"pan-scdg models fetch {name}{login}")
        if name == TRANSFORMERS5:
            needs.texts.append("transformers 5")
            if int(version("transformers").partition(".")[0]) < 5:
                needs.missing.append("an environment with requirements/transformers5.txt")
    if profile.decide is not None and profile.decide.method == "prompt":
        settings: Any = profile.method_settings
        needs.texts.append(f"a chat endpoint with {settings.model}")
        needs.missing.extend(() if os.environ.get(URL) else [URL])
        needs.missing.extend(() if find_spec("openai") else ["the extra endpoint"])
    if any(name in CATALOGUE for name in _list_models(step)):
        needs.texts.append("a GPU")
        needs.missing.extend(() if look_for_gpus() else ["a GPU"])
    return needs


def read_hours(steps: Sequence[Step]) -> dict[Path, float]:
    """Return the hours of commands by their outputs, from the logs of preflight that exist.

    Those of other pairs with the same models are in proportion to the bytes of the documents.
    """
    models = {step.output: load_profile(step.profile).list_models() for step in steps if step.profile is not None}
    logs = [step for step in steps if step.words[1] == "preflight" and (step.output / LOG).is_file()]
    hours: dict[Path, float] = {}
    for step in (step for step in steps if step.words[1] in ("run", "index") and "--candidates" not in step.words):
        for log in (log for log in logs if models[log.output] == models[step.output]):
            text = (log.output / LOG).read_text(encoding="utf-8")
            measured = {name: float(value) for name, value in HOURS.findall(text)}
            (own, *_), (where, *_) = step.inputs, log.inputs
            parts = ["encode"] if step.words[1] == "index" else ["score"] if "--index" in step.words else list(measured)
            if own == where:
                hours[step.output] = sum(measured.get(part, 0.0) for part in parts)
            elif (own / "pairs").is_file() and (where / "pairs").is_file():
                hours[step.output] = sum(measured.values()) * _weigh(own) / _weigh(where)
    return hours


def _list_models(step: Step) -> list[str]:
    """Return the models that a command loads: an index needs no language model, given candidates need no encoder."""
    profile = load_profile(step.profile or "")
    own = None if profile.model is None else profile.model.name
    names = profile.list_models()
    if step.words[1] == "index":
        names = [name for name in names if name != own]
    if "--candidates" in step.words:
        names = [name for name in names if name == own]
    return names


def _weigh(folder: Path) -> int:
    """Return the bytes of the documents of all pairs."""
    pairs = [line.split() for line in (folder / "pairs").read_text(encoding="utf-8").splitlines()]
    sizes = {path: path.stat().st_size for side in ("susp", "src") for path in (folder / side).iterdir()}
    return sum(sizes[folder / "susp" / susp] + sizes[folder / "src" / src] for susp, src in pairs)


def explain_missing(step: Step, pending: Sequence[Path] = ()) -> list[str]:
    """Return what a command lacks here; what is ``pending``, commands before it will write."""
    missing = list_needs(step).missing
    for path in step.inputs:
        if not path.exists() and not {path, *path.parents} & {*pending}:
            missing.append(str(path))
    return missing


def is_complete(step: Step) -> bool:
    """Return True if the output of a command that computes is whole."""
    if step.words[1] == "preflight":
        log = step.output / LOG
        return log.is_file() and log.read_text(encoding="utf-8").rstrip().rpartition("\n")[2].find("ready") >= 0
    return step.output.exists()


def make_plan(steps: Sequence[Step], output: Path) -> Iterator[str]:
    """Yield the lines of a table of what each command needs and lacks, and one about what is left."""
    hours, rows, pending = read_hours(steps), [PLAN], list[Path]()
    left: list[Step] = []
    for step in (step for step in steps if not step.makes_table):
        missing = [] if is_complete(step) else explain_missing(step, pending)
        if not missing:
            pending.append(step.output)
        if not missing and not is_complete(step):
            left.append(step)
        name, state = str(step.output.relative_to(output)), "complete" if is_complete(step) else ", ".join(missing)
        taken = f"{hours[step.output]:.2g}" if step.output in hours else ""
        rows.append((name, ", ".join(list_needs(step).texts), taken, state))
    widths = [max(map(len, column)) for column in zip(*rows)]
    yield from ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    known = [hours[step.output] for step in left if step.output in hours]
    spent = f", about {sum(known):.2g} h for {len(known)} of them" if known else ""
    yield f"left here: {len(left)} of {len(rows) - 1} commands{spent}"


def list_verdicts(steps: Sequence[Step], all_rows: bool) -> list[dict[str, str]]:
    """Return each row of the paper's tables: reproduced or not, or what it still needs.

    Rows of tables that exist are in their reports. ``all_rows``: name those of the paper that are in none, too;
    otherwise the commands without a result.
    """
    lines: list[dict[str, str]] = []
    for table in (step for step in steps if step.makes_table):
        study = table.words[3]
        own = [step for step in steps if study in step.tables and step.row and not step.output.exists()]
        report = table.output / REPORT
        given = json.loads(report.read_text(encoding="utf-8"))["tables"] if report.exists() else {}
        verdicts = {(row[PRINTED], row["Row"]): row["Verdict"] for row in given.get(VERDICTS, {"rows": ()})["rows"]}
        if all_rows:
            expected = {key: verdicts.get(key) or _list_lacks(key[1], own, steps) for key in list_paper_rows(study)}
            verdicts = {**expected, **verdicts}
        else:
            verdicts |= {("", step.row): _list_lacks(step.row, own, steps) for step in own}
        lines += [dict(zip(STATE, (title or study, row, verdict))) for (title, row), verdict in verdicts.items()]
    return lines


def _list_lacks(row: str, own: Sequence[Step], steps: Sequence[Step]) -> str:
    """Return what a row still needs: what the commands of its results lack, or that they are not complete."""
    lacking = [step for step in own if row.startswith(step.row)]
    if RERANKED in row:
        lacking += [step for step in steps if "--candidates" in step.words and not step.output.exists()]
    lacking = lacking or [step for step in own if load_profile(step.profile or "").gains is not None]
    computed = [step.output for step in steps if step.profile is not None or "rest" in step.words]
    missing = dict.fromkeys(text for step in lacking for text in explain_missing(step, computed))
    return f"needs {', '.join(missing)}" if missing else "needs its commands: repeat this one"


def study_paper(
    rows: Rows,
    data: str,
    output: Path,
    only: str | None,
    run_options: Sequence[str],
    stop_after_plan: bool,
    show: Callable[[str], None],
) -> None:
    """Run the commands that are not complete, and make the tables; see the module.

    Args:
        rows: `PAPER` or `EXAMPLES`.
        data: the folder of the data.
        output: the folder of all outputs.
        only: one of `TABLES`; None: all.
        run_options: further options of ``run`` and ``index``, such as ``--cluster local``.
        stop_after_plan: run nothing.
        show: prints what needs no answer.

    Raises:
        UserError: naming the commands that failed, after all others were run.
    """
    steps = [step for step in list_steps(rows, data, str(output)) if only is None or only in step.tables]
    show("\n".join(make_plan(steps, output)))
    if stop_after_plan:
        return
    failed: list[str] = []
    for number, step in enumerate(steps, 1):
        words = step.words
        if step.makes_table:
            adapted = adapt_table(step, steps)
            if adapted is None:
                show(f"[{number}/{len(steps)}] no result for the table {words[3]}")
                continue
            words = adapted.words
        elif is_complete(step):
            continue
        elif missing := explain_missing(step):
            show(f"[{number}/{len(steps)}] not run: {shlex.join(words)}: missing {', '.join(missing)}")
            continue
        if words[1] in ("run", "index"):
            words = (*words, *run_options)
        show(f"[{number}/{len(steps)}] {shlex.join(words)}")
        if execute(words) and words[1] != "preflight":
            failed.append(str(step.output))
    *_, left = make_plan(steps, output)
    show(left)
    show(format_table(list_verdicts(steps, rows.are_the_paper_s), STATE).rstrip())
    if failed:
        what = f"{len(failed)} commands failed: {', '.join(failed)}"
        raise UserError(what, "correct what they reported, and repeat this command")


def execute(words: Sequence[str]) -> int:
    """Run a documented command in a process of its own; return its exit code."""
    module = ("-m", "pan_scdg", *words[1:]) if words[0] == "pan-scdg" else words[1:]
    with subprocess.Popen([sys.executable, *module]) as process:
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            raise
