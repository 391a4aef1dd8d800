"""Write the table of shipped profiles in docs/profiles.md: ``python tools/profile_table.py [--check]``."""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "profiles.md"
BEGIN, END = "<!-- generated: tools/profile_table.py -->\n", "<!-- end of generated -->\n"
sys.path.insert(0, str(ROOT))

from pan_scdg.models.catalogue import find_licence  # noqa: E402 - found in the clone that this file belongs to
from pan_scdg.profile import Profile, list_profiles, load_profile  # noqa: E402


def main() -> None:
    """Rewrite the table, or with ``--check`` exit with 1 where the page is not current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    text = PAGE.read_text(encoding="utf-8")
    current = replace_table(text)
    if parser.parse_args().check:
        raise SystemExit(text != current and f"{PAGE.name} is not current: run tools/profile_table.py")
    PAGE.write_text(current, encoding="utf-8")


def replace_table(text: str) -> str:
    """Return the page with a regenerated table between its two markers."""
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{PAGE.name} has no pair of lines {BEGIN.strip()} and {END.strip()}")
    return f"{before}{BEGIN}{render_table()}{END}{after}"


def render_table() -> str:
    """Return one row for each shipped profile, in Markdown."""
    rows = ["| profile | description | models and licences | GPU | threshold |", "| --- | --- | --- | --- | --- |"]
    for name in list_profiles():
        profile = load_profile(name)
        models = "; ".join(f"{model}: {describe_licence(profile, model)}" for model in list_models(profile)) or "-"
        gpu = "yes" if profile.needs_gpu else "no"
        rows.append(f"| `{name}` | {profile.description} | {models} | {gpu} | {describe_threshold(profile)} |")
    return "\n".join(rows) + "\n"


def list_models(profile: Profile) -> list[str]:
    """Return the names of the models in a profile, without repetition."""
    retrieval = profile.retrieval
    found = [
        profile.model and profile.model.name,
        retrieval and retrieval.dense and retrieval.dense.model,
        getattr(profile.baseline, "model", None),
    ]
    return list(dict.fromkeys(name for name in found if name))


def describe_licence(profile: Profile, model: str) -> str:
    """Return the licence of a model, or where it runs if no files of it are needed."""
    if getattr(profile.baseline, "served", "") == "endpoint":
        return "asked at an endpoint"
    if getattr(profile.baseline, "kind", "") == "vectors":
        return "its vectors are read"
    return find_licence(model)


def describe_threshold(profile: Profile) -> str:
    """Return the threshold of a profile that decides pairs, or what it lacks."""
    table = profile.baseline or profile.pairs
    if table is None:
        return "-"
    return "run `calibrate`" if table.threshold is None else f"{table.threshold:.4g}"


if __name__ == "__main__":
    main()
