#!/bin/sh
# Runs a test on the fake driver, and fails it for anything of the driver, of the fake cuDNN or of the
# fakes of cuBLASLt and cuFFT, that a process which came to an orderly end has not given back.
# Usage: run.sh PROGRAM [ARGUMENT...]
set -u
FAKE_CUDA_LEAKS=${TMPDIR:-/tmp}/fake-cuda-leaks.$$
FAKE_CUDNN_COUNTS=${TMPDIR:-/tmp}/fake-cudnn-counts.$$
FAKE_CUBLASLT_COUNTS=${TMPDIR:-/tmp}/fake-cublaslt-counts.$$
FAKE_CUFFT_COUNTS=${TMPDIR:-/tmp}/fake-cufft-counts.$$
export FAKE_CUDA_LEAKS FAKE_CUDNN_COUNTS FAKE_CUBLASLT_COUNTS FAKE_CUFFT_COUNTS
"$@"
code=$?
if grep '^left' "$FAKE_CUDA_LEAKS" 2>/dev/null ||
    grep 'left [^0]' "$FAKE_CUDNN_COUNTS" "$FAKE_CUBLASLT_COUNTS" "$FAKE_CUFFT_COUNTS" 2>/dev/null; then
    [ $code -ne 0 ] || code=1
fi
rm -f "$FAKE_CUDA_LEAKS" "$FAKE_CUDNN_COUNTS" "$FAKE_CUBLASLT_COUNTS" "$FAKE_CUFFT_COUNTS"
exit $code
