"""The pages without a browser: texts are no markup, the policy fits, the size is bounded, passages are marked."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markupsafe import escape

from pan_scdg.records import MeasuredPassage, Reason, TokenGains
from pan_scdg.report.html import render_report, render_summary
from pan_scdg.report.query_page import RankedSource, ReportQuery, render_queries
from pan_scdg.report.records import Report, ReportText
from pan_scdg.results.records import EvidenceLine
from tests.passages import make_passage
from tests.report.samples import (
    GIVEN,
    HOSTILE,
    LEFT,
    PASSAGES,
    QUOTATION,
    RIGHT,
    Page,
    make_pair,
    make_report_of_given_text,
    make_small_report,
)

TEXTS = st.text(st.sampled_from("ab \n\r\t🙂\0\ud800"), max_size=60)


def make_query(number: int, text: str, *, name: str = "q") -> ReportQuery:
    source = RankedSource(1, f"d {HOSTILE} {number}", 0.5, {"bm25": (3, 7.25)})
    evidence = MeasuredPassage(make_passage(3, len(text) - 7, 2, 7), 0.5, 0.25, 0.25)
    return ReportQuery(
        f"{name} {HOSTILE} {number}", text, [source], [EvidenceLine("", source.doc_id, 1, evidence, None, None)]
    )


def render_small_queries() -> str:
    return render_queries([make_query(1, LEFT)], {f"d {HOSTILE} 1": RIGHT}, {"profile": HOSTILE}, [HOSTILE])


PAGES = pytest.mark.parametrize("render", [lambda: render_report(make_small_report()), render_small_queries])


@PAGES
def test_nothing_of_a_text_or_a_name_is_markup(render: Callable[[], str]) -> None:
    page = render()
    assert page.startswith("<!doctype html>\n")
    assert HOSTILE not in page
    assert str(escape(HOSTILE)) in page
    parsed = Page(page)
    assert not {tag for tag, _ in parsed.tags} & {"img", "b", "iframe", "object", "link"}
    assert not [attrs for _, attrs in parsed.tags if any(name.startswith("on") or name == "style" for name in attrs)]
    assert len(parsed.raw["script"]) == page.count("<script") == page.count("</script")


@PAGES
def test_the_policy_allows_this_script_and_this_style_and_the_page_asks_for_nothing(render: Callable[[], str]) -> None:
    page = render()
    parsed = Page(page)
    (policy,) = [a["content"] for _, a in parsed.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    running = [text for text in parsed.raw["script"] if not text.startswith("{")]
    hashes = [base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in (*running, *parsed.raw["style"])]
    assert re.findall(r"'sha256-(.*?)'", policy) == hashes
    assert not re.findall(r"unsafe|http|\*", policy)
    asks = r"""(src|action|srcset|poster)=|url\(|@import|fetch\(|XMLHttp|WebSocket|import\("""
    assert not re.search(asks, page.replace("src=x", ""))
    links = [attrs["href"] for _, attrs in parsed.tags if "href" in attrs]
    assert links
    assert {link[1:] for link in links if link[0] == "#"} <= {attrs.get("id") for _, attrs in parsed.tags}
    assert all(link.startswith("#") for link in links)


@PAGES
def test_the_page_has_the_day_on_which_it_was_made(render: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pan_scdg.report.html.date", SimpleNamespace(today=lambda: date(2026, 3, 5)))
    assert ">5 March 2026" in render()


def test_every_text_is_in_the_page_once_and_its_passages_are_marked() -> None:
    page = Page(render_report(make_small_report()))
    texts = {text: name for name, text in page.texts.items()}
    shown_right = RIGHT.replace("\x00", "\ufffd")
    assert sorted(page.texts.values()) == sorted([LEFT, shown_right, "Another text. " * 9])
    marks = [
        {
            row: "".join(text for href, text in page.marks[texts[shown]] if href == row)
            for row, _ in page.marks[texts[shown]]
        }
        for shown in (LEFT, shown_right)
    ]
    assert marks[0] == {f"#pair-1-{i}": LEFT[slice(*p.target)] for i, p in enumerate(PASSAGES, 1)}
    # the source side of the second passage overlaps that of the first, which owns what both have in common
    expected = [shown_right[slice(*p.source)] for p in PASSAGES]
    expected[1] = expected[1][PASSAGES[0].source.end - PASSAGES[1].source.begin :]
    assert marks[1] == {f"#pair-1-{i}": text for i, text in enumerate(expected, 1)}
    (levels,) = (json.loads(text) for text in page.raw["script"] if text.startswith('{"token"'))
    assert levels["token"]["legend"] == ["< −1.5", "< −0.5", "about 0", "≥ 0.5", "≥ 1", "≥ 2", "≥ 3", "≥ 5"]


def test_equal_words_are_marked_on_both_sides() -> None:
    left, right = "Own. The Board of 1862 <b>sold</b> oil.", "Oil <b>sold</b> by the 🙂 Board in 1862. Rest."
    passage = MeasuredPassage(make_passage(5, len(left) - 5, 0, right.index(" Rest")), 0.5, 0.0)
    texts = {"a": ReportText("a", left)}, {"b": ReportText("b", right)}
    page = Page(render_report(Report("Equal", *texts, (make_pair("a", "b", 0.9, "likely", (passage,)),), 0.5)))
    row = page.source.partition('id="pair-1-1"')[2].partition("</tbody>")[0]
    words = [["Board", "1862 <b>sold</b> oil"], ["Oil <b>sold", "Board", "1862"]]
    assert [html.unescape(part) for part in re.findall('<span class="equal">(.*?)</span>', row)] == [
        *words[0],
        *words[1],
    ]
    for text, places, expected in zip((left, right), page.details[1]["equal"][0], words, strict=True):
        units = text.encode("utf-16-le")
        shown = [units[2 * a : 2 * b].decode("utf-16-le") for a, b in zip(places[::2], places[1::2])]
        assert shown == expected


def test_what_does_not_count_is_grey_and_no_passage() -> None:
    page = Page(render_report(make_report_of_given_text()))
    own, rest = "The tide turns twice a day. ", " Nobody knows why."
    assert page.marks["text-1"][:3] == [("#pair-1-1", own), ("#pair-1-1", rest), ("#pair-1-2", QUOTATION)]
    grey = [(tag, attrs.get("title")) for tag, attrs in page.tags if attrs.get("class") == "out" and "title" in attrs]
    assert grey == [("span", "in the template"), *[("span", "in a quotation")] * 2]
    assert page.texts["text-1"] == GIVEN * 3
    assert page.read_sentence("pair-1-1").startswith("All 9 words")
    assert page.details[1]["uncounted"] == [2]


def test_offsets_for_the_script_are_those_of_a_browser() -> None:
    data = Page(render_report(make_small_report())).details[1]
    units = LEFT.encode("utf-16-le")
    for (begin, end, *_), passage in zip(data["passages"], PASSAGES, strict=True):
        assert units[2 * begin : 2 * end].decode("utf-16-le") == LEFT[slice(*passage.target)]
    at, words = 0, []
    for skip, length, _ in zip(*[iter(data["gains"])] * 3, strict=True):
        words.append(units[2 * (at + skip) : 2 * (at + skip + length)].decode("utf-16-le"))
        at += skip + length
    assert "".join(words) == LEFT
    assert data["gains"][2::3] == [i - 50 for i in range(len(words))]


@pytest.mark.long
def test_a_page_of_a_thousand_pairs_is_not_larger_than_its_limit() -> None:
    words = 'Ein Käse & <noch> ein "Wort" aus dem Text, der lang genug ist. ' * 100
    numbered = (ReportText(f"text {i}.txt", f"{i} {words}").exclude_quotations("alignment") for i in range(60))
    texts = {text.name: text for text in numbered}
    passages = tuple(MeasuredPassage(make_passage(b, 900, b, 900), 0.5, 0.5, 1.0) for b in range(0, 5000, 1000))
    spans = tuple((i, i + 4) for i in range(0, len(words), 4))
    gains = TokenGains(spans, tuple(1.0 for _ in spans))
    names = [(a, b) for a in list(texts)[:30] for b in list(texts)[30:]]
    pairs = tuple(make_pair(a, b, 1 - i / 2000, "likely", passages, (), gains) for i, (a, b) in enumerate(names))
    report = Report("Many", texts, texts, pairs, 0.2, passages_file="passages.jsonl")
    for max_bytes in (2_500_000, 7_000_000):
        page = render_report(report, max_bytes)
        assert len(page.encode()) <= max_bytes
        details, with_gains = len(re.findall('<section class="pair"', page)), page.count('"gains":[')
        assert 10 < details < 900
        assert "their passages are in <code>passages.jsonl</code>" in page
        assert 0 < with_gains < details or max_bytes < 7_000_000
    assert "their passages are in" not in render_report(replace(report, passages_file=""), 2_500_000)


def test_a_page_of_queries_is_not_larger_than_its_limit_and_has_each_source_once() -> None:
    queries = [make_query(number, "A sentence & more. " * 2000) for number in range(20)]
    texts = {f"d {HOSTILE} {number}": f"The source of {number}. " * 1000 for number in range(19)}
    page = render_queries(queries, texts, {}, [], 900_000)
    assert len(page.encode()) <= 900_000
    shown = page.count('<section class="pair"')
    assert 2 < shown < 19
    assert f"{20 - shown} queries are left out" in page
    same = [ReportQuery(f"q{i}", q.text, queries[0].sources, queries[0].passages) for i, q in enumerate(queries)]
    page = render_queries(same[:9], texts, {}, [])
    assert (page.count('<section class="pair"'), page.count("<h3><bdi")) == (9, 10)


def test_no_more_pairs_than_a_browser_can_bear_are_in_the_table() -> None:
    text = {"a": ReportText("a", "A text.")}
    page = render_report(Report("Many", text, text, (make_pair("a", "a", 0.1, "no sign"),) * 2100, None))
    assert page.count("<tr data-number") == 2000
    assert "100 more pairs" in page
    assert "1,000 pairs without a link" in page


def test_an_empty_report_and_an_empty_text_have_a_page() -> None:
    assert "0 pairs were compared" in render_report(Report("None", {}, {}, (), None))
    empty = {"e": ReportText("e", "")}
    page = render_report(Report("Empty", empty, empty, (make_pair("e", "e", None, "unclear"),), 0.5))
    assert "No passage was located." in page


def test_long_passages_are_shortened_in_the_table_only() -> None:
    words = {"a": ReportText("a", "lorem ipsum dolor " * 2000)}
    passage = MeasuredPassage(make_passage(0, 36_000, 0, 36_000), 1.0, 1.0)
    page = render_report(Report("Long", words, words, (make_pair("a", "a", 1.0, "likely", (passage,)),), 0.5))
    assert page.count("[30,000 characters are left out here]") == 2
    assert page.count("lorem") == 2000 + 666


def test_a_notebook_shows_text_as_text() -> None:
    shown = render_summary(make_small_report())
    assert HOSTILE not in shown
    assert not {tag for tag, _ in Page(shown).tags} & {"script", "style", "img", "a"}
    assert "likely" in shown


def read_sentences(*passages: MeasuredPassage) -> list[str]:
    """Return what the page says of some passages of the small report's first pair."""
    report = make_small_report()
    page = Page(render_report(replace(report, pairs=(replace(report.pairs[0], passages=passages),))))
    return [page.read_sentence(f"pair-1-{i}").partition("Details")[0].strip() for i in range(1, len(passages) + 1)]


def test_the_sentence_about_a_passage_gives_the_reason_that_applies() -> None:
    first, quoted, listed = (passage._replace(reasons=()) for passage in PASSAGES)
    copied = [first._replace(verbatim=share) for share in (1.0, 0.0, 0.25, 0.5)]
    formal = quoted._replace(within="formal", reasons=PASSAGES[2].reasons)
    sentences = read_sentences(*copied, quoted, formal, listed)
    assert sentences[:4] == [
        "All 8 words are copied.",
        "Reworded: 4 of its 8 words are equal.",
        "2 of its 8 words are copied, and 2 others also occur in the source passage.",
        "4 of its 8 words are copied.",
    ]
    assert sentences[4:6] == [
        "Reworded: 0 of its 5 words are equal. It is part of a quotation and does not count.",
        "Reworded: 0 of its 5 words are equal. It is part of a title page, a table of contents, a declaration, "
        "acknowledgements or comments and does not count. 5 of 9 suspicious texts have a similar passage.",
    ]
    assert sentences[6].startswith("All 3 words are copied. It is part of a list of references and counts: a decision ")


def test_measures_are_details_of_a_passage() -> None:
    page = Page(render_report(make_small_report()))
    gain = "The source makes it 1.20 nats per token easier to predict."
    assert page.read_sentence("pair-1-1").endswith(f"DetailsWord similarity 0.70, on a scale from 0 to 1. {gain}")
    report = make_small_report()
    pair = replace(report.pairs[0], passages=(PASSAGES[0]._replace(gain=0.01),))
    shown = Page(render_report(replace(report, pairs=(pair,)))).read_sentence("pair-1-1")
    assert shown.endswith("The source makes it no easier to predict (0.01 nats per token).")


def test_a_pair_shows_the_evidence_of_its_decision() -> None:
    report = make_small_report()
    evidence = "7 of 12 sentences correspond to one of the source; longest copied stretch 9 words"
    names = report.pairs[0].suspicious, report.pairs[0].source
    pair = make_pair(*names, 0.9, "likely", corresponding=7.0, sentences=12.0, copied=9.0)
    assert f">{evidence}<" in render_report(replace(report, pairs=(pair,)))
    assert "to one of the source" not in render_report(replace(report, pairs=(make_pair(*names, 0.9, "likely"),)))


def test_an_unclear_pair_has_its_own_reasons_only() -> None:
    report = make_small_report()
    names = report.pairs[1].suspicious, report.pairs[1].source
    pair = make_pair(*names, 0.1, "unclear", reasons=(Reason("just_below"),))
    shown = render_report(replace(report, pairs=(pair,))).partition('<section class="pair"')[2]
    assert "just below the threshold" in shown
    assert "The score is just below" not in shown
    assert "The score is just below" in render_report(replace(report, pairs=(make_pair(*names, 0.1, "unclear"),)))


def test_texts_compared_with_each_other_are_no_sources() -> None:
    texts = {name: ReportText(name, f"The text of {name}. " * 20) for name in "ab"}
    passage = MeasuredPassage(make_passage(0, 100, 0, 100), 0.9, 0.9)
    page = render_report(
        Report("Among", texts, texts, (make_pair("a", "b", 0.9, "likely", (passage,)),), 0.5, within_class=True)
    )
    assert sorted(Page(page).texts.values()) == [texts["a"].text, texts["b"].text]
    assert "Other text" in page
    assert not re.search(r">\s*(Suspicious|Source)\s*<", page)


def render_text(name: str, text: str, spans: Iterable[tuple[int, int]] = ()) -> Page:
    """Return the page of a text with passages, compared with itself."""
    passages = tuple(MeasuredPassage(make_passage(a, b - a, a, b - a), 1.0, 1.0) for a, b in spans)
    texts = {name: ReportText(name, text)}
    return Page(render_report(Report("Text", texts, texts, (make_pair(name, name, 1.0, "likely", passages),), 0.5)))


def show_text(name: str, text: str) -> str:
    return render_text(name, text).texts["text-1"]


def test_the_lines_of_a_pdf_are_joined_inside_paragraphs() -> None:
    lines = [
        "Why the tide turns\n",
        "The tide turned before noon and the nets of the village came up empty; nobody on ",
        "the quay said a word. The master of the harbour wrote the hour in a book, as he al-\u200b",
        "ways did, and closed it.\n",
        "In the evening the boats left again, further out than in the morning, and towards\n",
        "- the sandbank,\n",
        "- the wreck.\n",
    ]
    shown = "".join(lines)
    text = "".join(f"{line[:-1]}\n" for line in lines)
    assert show_text("tide.PDF", text) == shown
    assert show_text("tide.txt", text) == text


@settings(max_examples=25, deadline=None)
@given(TEXTS, st.sampled_from([1, 9, 300]), st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=5))
@example("ab", 9000, [(0.1, 0.9)])
def test_any_text_is_shown_whole_in_short_blocks_with_the_first_passage_on_top(
    part: str, times: int, shares: list[tuple[float, float]]
) -> None:
    text = part * times
    places = (sorted(int(share * len(text)) for share in pair) for pair in shares)
    spans = [(begin, end) for begin, end in places if begin < end]
    page, clean = render_text("a.txt", text, spans), re.sub("[\0\ud800-\udfff]", "\ufffd", text)
    assert page.texts["text-1"] == clean
    assert all(len(block) <= 8001 or not block.strip() for block in page.blocks["text-1"])
    joined = show_text("a.pdf", text)
    assert len(joined) == len(clean)
    assert {b for a, b in zip(clean, joined, strict=True) if a != b} <= {" ", "\u200b"}
    owners = [next((i for i, (a, b) in enumerate(spans, 1) if a <= at < b), None) for at in range(len(clean))]
    for i, (begin, end) in enumerate(spans, 1):
        marked = "".join(data for href, data in page.marks.get("text-1", []) if href == f"#pair-1-{i}")
        assert marked == "".join(sign for sign, owner in zip(clean, owners) if owner == i)
        units = [len(clean[:at].encode("utf-16-le")) // 2 for at in (begin, end)]
        assert page.details[1]["passages"][i - 1] == units * 2, "a browser counts UTF-16 units"
