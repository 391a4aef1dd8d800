#!/usr/bin/env bash
# Run a module of this folder with the packages of requirements/tools.lock, which are in .venv/tools and stay out of .venv itself:
# run.sh MODULE [ARGUMENT ...]
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=.venv/tools
lock=requirements/tools.lock
if ! cmp --silent "$lock" "$folder/tools.lock"; then
    rm -rf "$folder"
    .venv/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --no-compile --require-hashes \
        --target "$folder" -r "$lock"
    cp "$lock" "$folder"
fi
PATH=$PWD/$folder/bin:$PATH PYTHONPATH=$PWD/$folder exec .venv/bin/python -m "tools.supply_chain.$1" "${@:2}"
