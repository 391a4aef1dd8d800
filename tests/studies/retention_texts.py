"""Small cases of the retention study, without files."""

import random
import re

from studies.retention.contexts import DistractorPool, Sentence
from studies.retention.instances import Case

WORDS = re.findall(r"\w+", "the council of a small town said on Monday that its old bridge would be closed for repairs")


def some_pool(articles: int = 4, sentences: int = 12) -> DistractorPool:
    generator = random.Random(5)
    texts = (" ".join(generator.choices(WORDS, k=generator.randint(4, 14))) for _ in range(articles * sentences))
    places = ((f"n{a}.txt", s) for a in range(articles) for s in range(sentences))
    return DistractorPool(tuple(Sentence(a, s, f"{text.capitalize()}.") for (a, s), text in zip(places, texts)))


def some_case(pair_id: str = "s1-r1", seed: int = 0) -> Case:
    generator = random.Random(seed)
    sentences = [f"Sample {i} held {generator.random():.6f} grams of the salt in question." for i in range(19)]
    evidence = " ".join(sentences)
    target = f"Something new comes first. {evidence[:300]} And new text ends it."
    return Case(pair_id, target, evidence, (27, 327), ((27, 327),))
