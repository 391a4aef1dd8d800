#!/usr/bin/env bash
# Create .venv from requirements.lock, with this clone installed in it as the command pan-scdg. A second call with the same lock
# does nothing. PYTHON chooses the interpreter; TORCH_INDEX_URL an index that has CPU wheels of torch, whose hashes are not known.
set -euo pipefail
cd "$(dirname "$0")/.."

need_gb=7
lock=requirements.lock
stamp=.venv/requirements.sha256
wanted=$(sha256sum "$lock" | cut -d' ' -f1)
pip=(.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && [ -x .venv/bin/python ]; then
    [ -x .venv/bin/pan-scdg ] || "${pip[@]}" --no-deps --no-build-isolation --editable .
    exit 0
fi

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3.12 python3.11 python3.10 python3}; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "setup: no Python 3.10 to 3.12 found. Install one, or name it: make PYTHON=/path/to/python3.11 ..." >&2
    exit 2
}
python=$(find_python)

if [ -n "${TORCH_INDEX_URL:-}" ]; then
    need_gb=3
    echo "setup: installing into .venv with torch from TORCH_INDEX_URL. This needs $need_gb GB of free disk."
else
    echo "setup: installing into .venv takes two minutes and $need_gb GB of free disk, most of it for the CUDA libraries of torch."
    echo "setup: to leave them out, set TORCH_INDEX_URL to an index with CPU wheels."
fi
free_gb=$(($(df -Pk . | awk 'NR == 2 { print $4 }') / 1048576))
if [ "$free_gb" -lt "$need_gb" ]; then
    echo "setup: $need_gb GB of disk are needed, and $free_gb GB are free here. Free some, or clone onto another disk." >&2
    exit 2
fi

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    echo "setup: $python cannot make virtual environments. Install its venv package (Debian: python3-venv)." >&2
    exit 2
fi
rm -rf .venv
"$python" -m venv .venv
sed '/^# \[run\]/,$d' "$lock" | "${pip[@]}" --no-deps --require-hashes -r /dev/stdin
if [ -n "${TORCH_INDEX_URL:-}" ]; then
    sed '/^# \[torch\]/,/^# \[tests\]/d' "$lock" | bash tools/install.sh /dev/stdin
    "${pip[@]}" --index-url "$TORCH_INDEX_URL" "$(grep -oE '^torch==[0-9.]+' "$lock")"
else
    bash tools/install.sh "$lock"
fi
"${pip[@]}" --no-deps --no-build-isolation --editable .
# Compile what commands and tests import, not all 270 MB of sources; on two cores, where pip uses one.
compile_imports() { PYTHONDONTWRITEBYTECODE='' .venv/bin/python -c "import $1"; }
compile_imports "pyterrier, transformers.models.qwen2.modeling_qwen2, transformers.models.llama.modeling_llama" &
compile_imports "sentence_transformers, sklearn.linear_model, scipy.stats, matplotlib.pyplot, ir_measures, pytest, openai"
wait
echo "$wanted" > "$stamp"
