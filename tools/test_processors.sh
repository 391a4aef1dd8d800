#!/usr/bin/env bash
# Runs the tests that compute once under each setting of the libraries' instructions and prints a table of the results.
# PYTHON names an interpreter, arguments go to pytest in place of the folders. Where a processor lacks an instruction
# the libraries take the next best without a word, so such a row is left out and says so.
set -euo pipefail
cd "$(dirname "$0")/.."
tests=(tests/test_tolerances.py tests/models/test_scdg_mini.py tests/lm tests/scdg tests/text tests/align tests/retrieval tests/methods
    tests/jobs tests/cli tests/studies tests/pinned)
[ $# -gt 0 ] && tests=("$@")
failed=0
while read -r needs setting; do
    if [ "$needs" != - ] && ! grep -qw "$needs" /proc/cpuinfo; then
        result="not shown: this processor has no $needs"
    else
        result=$(env $setting "${PYTHON:-.venv/bin/python}" -m pytest -q -rfE "${tests[@]}" 2>&1 < /dev/null |
            grep -E '^(FAILED|ERROR)|(passed|failed|error).* in ') || failed=1
    fi
    printf '%-36s %s\n' "${setting:-as it is}" "${result:-no tests ran}"
done << 'SETTINGS'
-
- ATEN_CPU_CAPABILITY=default
avx2 ATEN_CPU_CAPABILITY=avx2
avx512f ATEN_CPU_CAPABILITY=avx512
- ONEDNN_MAX_CPU_ISA=SSE41
avx2 ONEDNN_MAX_CPU_ISA=AVX2
avx512f ONEDNN_MAX_CPU_ISA=AVX512_CORE
amx_tile ONEDNN_MAX_CPU_ISA=AVX512_CORE_AMX
- MKL_CBWR=COMPATIBLE
SETTINGS
exit $failed
