#!/usr/bin/env bash
# Run a module of this folder with the packages of requirements/tools.lock, which are in .venv/tools and stay out of .venv itself:
# run.sh MODULE [ARGUMENT ...]
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=.venv/tools
bash tools/install.sh requirements/tools.lock "$folder"
PATH=$PWD/$folder/bin:$PWD/.venv/bin:$PATH PYTHONPATH=$PWD/$folder exec .venv/bin/python -m "tools.supply_chain.$1" "${@:2}"
