#!/bin/sh
# Runs a test on the fake driver, and fails it for anything of the driver that a process which came to
# an orderly end has not given back.
# Usage: run.sh PROGRAM [ARGUMENT...]
set -u
FAKE_CUDA_LEAKS=${TMPDIR:-/tmp}/fake-cuda-leaks.$$
export FAKE_CUDA_LEAKS
"$@"
code=$?
if grep '^left' "$FAKE_CUDA_LEAKS" 2>/dev/null; then
    [ $code -ne 0 ] || code=1
fi
rm -f "$FAKE_CUDA_LEAKS"
exit $code
