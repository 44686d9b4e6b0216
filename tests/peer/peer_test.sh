#!/bin/bash
# Some random cases against PyTorch, where it is installed for TROUPE_PEER_PYTHON (default python3); one
# more set each time. TROUPE_TEST_CASES and TROUPE_TEST_SEED repeat or lengthen it.
set -uo pipefail
here=$(dirname "$(realpath "$0")")
python=${TROUPE_PEER_PYTHON:-python3}
"$python" -c 'import torch' 2>/dev/null || { echo "no PyTorch for $python: skipped"; exit 77; }
PYTHONDONTWRITEBYTECODE=1 exec "$python" "$here/peer.py" --runner "$TROUPE_PEER_RUNNER" \
    --backend "${TROUPE_TEST_BACKEND:-host}" --cases "${TROUPE_TEST_CASES:-200}" --elements 20000 --products 2000000 \
    ${TROUPE_TEST_SEED:+--seed "$TROUPE_TEST_SEED"}
