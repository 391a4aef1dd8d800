import subprocess
import sys
from pathlib import Path

PARTS = ("scdg", "lm")
HEAVY = ("torch", "transformers", "safetensors", "sklearn")


def test_importing_the_parts_loads_nothing_heavy() -> None:
    root = Path(__file__).parents[2]
    files = [p for part in PARTS for p in (root / "pan_scdg" / part).glob("*.py") if p.stem != "__init__"]
    names = sorted(f"pan_scdg.{p.parent.name}.{p.stem}" for p in files)
    assert "pan_scdg.lm.logprobs" in names
    code = f"import sys, {', '.join(names)}; print([m for m in {HEAVY!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
