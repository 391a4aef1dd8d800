"""The list of components of the wheel agrees with CycloneDX's schema, with the lock, and with the wheel."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.supply_chain.locks import ALL, ROOT, find_lock, read_pins


@pytest.mark.long
def test_the_list_of_the_wheel(tools: dict[str, str], tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tools.supply_chain.components", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, env=tools, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "wheel.cdx.json").read_text(encoding="utf-8"))
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert found["metadata"]["component"]["name"] == "pan-scdg"
    pins = {f"pkg:pypi/{p.name}@{p.version}" for p in read_pins(find_lock(ALL)) if p.section in ("run", "torch")}
    assert {row["purl"] for row in found["components"] if "purl" in row} == pins
    (model,) = [row for row in found["components"] if row["type"] == "machine-learning-model"]
    digest = hashlib.sha256((ROOT / "model_cache" / "scdg-mini" / "model.safetensors").read_bytes()).hexdigest()
    assert model["hashes"] == [{"alg": "SHA-256", "content": digest}]
