"""Rows of options, profiles and model folders."""

from tests.bad_input.inputs import PAIRS, RETRIEVAL, Bad

HELP = ".*; see --help"
RUN = "run --input {input} --output {output}"


def _option(words: str, says: str) -> Bad:
    return Bad(PAIRS, f"^{says}{HELP}", f"{RUN} {words}")


def _profile(text: str, says: str) -> Bad:
    return Bad(PAIRS | {"mine.toml": text}, f"/mine.toml{says}", f"{RUN} --profile {{input}}/mine.toml")


def _threshold(value: str) -> str:
    return f'name = "mine"\ndescription = "x"\n\n[baseline]\nkind = "containment"\nn = 4\nthreshold = {value}\n'


ROWS = {
    "an unknown command": Bad({}, "^No such command 'ruin'; did you mean 'run'[?] See --help", "ruin {input}"),
    "an unknown option": Bad(PAIRS, "^No such option .*; did you mean .*\\? See --help", f"{RUN} --outputs x"),
    "no output": Bad(PAIRS, f"^Missing option '--output'{HELP}", "run --input {input}"),
    "a limit of nothing": _option("--limit 0", "Invalid value for '--limit': 0 is not in the range"),
    "no workers": _option("--workers 0", "Invalid value for '--workers': 0 is not in the range"),
    "no cluster": _option("--cluster nowhere", "Invalid value for '--cluster': 'nowhere' is not local, auto or"),
    "share 0": _option("--shard 0/3", "Invalid value for '--shard': '0/3' is not I/N"),
    "a share beyond all": _option("--shard 4/3", "Invalid value for '--shard': '4/3' is not I/N"),
    "a share of none": _option("--shard 1/0", "Invalid value for '--shard': '1/0' is not I/N"),
    "a share in words": _option("--shard first", "Invalid value for '--shard': 'first' is not I/N"),
    "a report of a shard": _option("--report --shard 1/2", "--report cannot be combined with --plan, --shard or"),
    "a report of scores": _option("--report --scores-only", "--report cannot be combined with"),
    "a report of a plan": _option("--report --plan", "--report cannot be combined with"),
    "JSON of no plan": _option("--json", "--json needs --plan"),
    "an unknown profile": Bad(PAIRS, "^.*no-such-profile", f"{RUN} --profile no-such-profile"),
    "a profile of no TOML": _profile("name = 'mine", ":1: not valid TOML: .*; correct the profile"),
    "an empty profile": _profile("", ": name: .*; correct the profile")._replace(lines=2),
    "a threshold that is nan": _profile(_threshold("nan"), ": baseline.*threshold.*; correct the profile"),
    "a threshold that is inf": _profile(_threshold("inf"), ": baseline.*threshold.*; correct the profile"),
    "a threshold in words": _profile(_threshold('"high"'), ": baseline.*threshold.*; correct the profile"),
    "a profile of another method": _profile(
        _threshold("0.5").replace("containment", "magic"), ": baseline.*; correct the profile"
    ),
    "a profile in Latin-1": Bad(
        PAIRS | {"mine.toml": 'name = "Säge"'.encode("latin-1")},
        "/mine.toml: not valid TOML: 'utf-8' codec .*; correct the profile",
        f"{RUN} --profile {{input}}/mine.toml",
    ),
    "a profile without a threshold": Bad(
        PAIRS | {"mine.toml": _threshold("0.5").replace("threshold = 0.5\n", "")},
        "^profile mine has no threshold and cannot decide; calibrate it",
        f"{RUN} --profile {{input}}/mine.toml",
    ),
    "a profile of the other job": Bad(
        RETRIEVAL | {"mine.toml": _threshold("0.5")}, "^.*mine.*retrieval.*; ", f"{RUN} --profile {{input}}/mine.toml"
    ),
    "a model folder that is none": Bad(PAIRS, "/none.*; ", f"{RUN} --profile {{profile}} --model {{input}}/none"),
    "a model folder of something else": Bad(PAIRS, "/susp.*; ", f"{RUN} --profile {{profile}} --model {{input}}/susp"),
}
