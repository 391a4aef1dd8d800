import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("scdg", "lm")
HEAVY = ("torch", "transformers", "safetensors", "sklearn")


def test_importing_the_parts_loads_nothing_heavy() -> None:
    files = [p for part in PARTS for p in (ROOT / "pan_scdg" / part).glob("*.py") if p.stem != "__init__"]
    names = sorted(f"pan_scdg.{p.parent.name}.{p.stem}" for p in files)
    assert "pan_scdg.lm.logprobs" in names
    code = f"import sys, {', '.join(names)}; print([m for m in {HEAVY!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


UNUSED = (
    *("pan_scdg.report.pages", "pan_scdg.report.query_page", "pan_scdg.jobs.processes"),
    *("pan_scdg.lm.engine", "pan_scdg.align.passages", "pan_scdg.models.encoder"),
)


def test_a_run_of_pairs_reads_only_what_its_profile_needs() -> None:
    """Pages, Ray, the engine, alignment and encoders are imported by those that use them."""
    code = f"import sys, pan_scdg.jobs.pairs; print([m for m in {UNUSED!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
