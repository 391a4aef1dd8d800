#!/usr/bin/env bash
# Runs the tests of lm/ with transformers 5 over the packages of .venv, which stays as it is; needs network.
# TRANSFORMERS chooses another release; arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${TRANSFORMERS:-5.23.0}
overlay=$(mktemp -d)
trap 'rm -rf "$overlay"' EXIT
# What transformers 5 needs newer may differ; everything else keeps its version, so that torch finds what it was built for.
.venv/bin/python -m pip --disable-pip-version-check list --format=freeze |
    grep -viE '^(transformers|tokenizers|huggingface[-_]hub|pip|setuptools|wheel)==' > "$overlay/constraints.txt"
.venv/bin/python -m pip --disable-pip-version-check install --quiet --target "$overlay/packages" \
    --constraint "$overlay/constraints.txt" "transformers==$version"
echo "transformers $version:"
PYTHONPATH="$overlay/packages" .venv/bin/python -m pytest tests/lm "$@"
