#!/usr/bin/env bash
# Install a lock of this project with uv, which takes a third of pip's time: install.sh FILE into .venv, install.sh FILE FOLDER into a
# folder that is put in front of it, unless it is there already. FILE may be /dev/stdin.
set -euo pipefail
cd "$(dirname "$0")/.."
lock=$1
folder=${2:-}
if [ -n "$folder" ]; then
    if cmp --silent "$lock" "$folder/installed.lock"; then exit 0; fi
    rm -rf "$folder"
fi
# uv does not read pip's settings
index=$(.venv/bin/python -m pip config list | sed -n "s/^[^ ]*\.index-url='\(.*\)'$/\1/p" | tail -1)
if [ -n "$index" ]; then export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"; fi
# Some packages are published as source, which is built with what .venv has.
.venv/bin/uv pip install --quiet --python .venv/bin/python --system-certs --no-cache --no-deps --no-build-isolation \
    --require-hashes ${folder:+--target "$folder"} -r "$lock"
if [ -n "$folder" ]; then cp "$lock" "$folder/installed.lock"; fi
