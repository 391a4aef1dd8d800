"""The prompted baseline: a pair's label, as a model answers, becomes its score (paper, PlagBench-style prompting)."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pan_scdg.baselines.answers import Answerer, replies
from pan_scdg.baselines.endpoint import endpoint_of_environment, model_name
from pan_scdg.baselines.labels import SCORES, label_of
from pan_scdg.baselines.prompts import messages
from pan_scdg.baselines.scorer import TextPair
from pan_scdg.digests import text_digest
from pan_scdg.profile.baseline import Prompted
from pan_scdg.store import Store


class PromptJudge:
    """A `PairScorer` that asks a model about each pair.

    Args:
        settings: the prompt's mode and the characters of a document that are shown.
        answerer: the model.
        store: keeps every answer.
    """

    features: tuple[str, ...] = ("score",)

    def __init__(self, settings: Prompted, answerer: Answerer, store: Store) -> None:
        self._settings, self._answerer, self._store = settings, answerer, store

    def identity(self) -> dict[str, Any]:
        """The mode, the words of the prompt, and the model; not where the model is served."""
        return {
            "method": "prompt",
            "shots": self._settings.shots,
            "chain_of_thought": self._settings.chain_of_thought,
            "characters": self._settings.characters,
            "words": text_digest(json.dumps(messages(self._settings, "", ""))),
            "answered_by": self._answerer.identity,
        }

    def score(self, pairs: Iterable[TextPair]) -> Iterator[tuple[float, ...]]:
        """The score of each pair's label; ``unknown`` where an answer holds none.

        Raises:
            UserError: the model refuses a pair.
            Interrupted: the endpoint is down.
        """
        chats = (messages(self._settings, pair.target, pair.source) for pair in pairs)
        for reply in replies(chats, self._answerer, self._store):
            yield (SCORES[label_of(reply.text)],)


def endpoint_judge(settings: Prompted, store: Store) -> PromptJudge:
    """The judge at the endpoint that the environment names; nothing is asked yet, and no address is needed yet."""
    name = model_name(settings.model)
    answerer = Answerer({"served": "endpoint", "model": name}, lambda: endpoint_of_environment(name).complete)
    return PromptJudge(settings, answerer, store)
