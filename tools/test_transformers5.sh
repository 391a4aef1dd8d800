#!/usr/bin/env bash
# Tests of lm/, and one run from files to decisions with transformers 5: in .venv/transformers5, in
# front of the packages of .venv, which stay as they are. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=.venv/transformers5
bash tools/install.sh requirements/transformers5.lock "$folder"
PYTHONPATH=$PWD/$folder .venv/bin/python -m pytest tests/lm \
    tests/models/test_encoder.py tests/cli/test_ministral3.py "$@"
