#!/bin/bash
# Files of arrays against NumPy, where it is installed for TROUPE_PEER_PYTHON (default python3); one more set each
# time. TROUPE_TEST_SEED repeats it.
set -uo pipefail
here=$(dirname "$(realpath "$0")")
python=${TROUPE_PEER_PYTHON:-python3}
"$python" -c 'import numpy' 2>/dev/null || { echo "no NumPy for $python: skipped"; exit 77; }
PYTHONDONTWRITEBYTECODE=1 exec "$python" "$here/io.py" "$TROUPE_IO_RUNNER" ${TROUPE_TEST_SEED:+--seed "$TROUPE_TEST_SEED"}
