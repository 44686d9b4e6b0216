#!/bin/bash
# numpy.fft's and scipy.fft's own test suites on the fft actor: by the Python that TROUPE_PEER_PYTHON names, or by
# what tests/peer/fetch.sh has fetched.
set -uo pipefail
here=$(dirname "$(realpath "$0")")
[ -n "${TROUPE_LIBRARY:-}" ] || { echo "no Python loads a library with a sanitizer: skipped"; exit 77; }
[ -n "${TROUPE_PEER_PYTHON:-}" ] || export PYTHONPATH=$here/../../build/peers
python=${TROUPE_PEER_PYTHON:-python3}
"$python" -c 'import cffi, hypothesis, numpy, pytest, scipy' 2>/dev/null ||
    { echo "no NumPy, SciPy, pytest, hypothesis and cffi for $python (tests/peer/fetch.sh): skipped"; exit 77; }
PYTHONDONTWRITEBYTECODE=1 exec "$python" "$here/fft_suites.py" "$TROUPE_LIBRARY" \
    "$(dirname "$TROUPE_LIBRARY")/../include/troupe/declarations.h" "${TROUPE_TEST_BACKEND:-host}"
