#!/bin/bash
# Writes docs/actors/blas_routines.md from src/libs/blas/routines.def. With --check: fails if the file differs.
# Usage: blas_routines.sh [--check], CC names the compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${CC:-cc} -std=c17 -D_GNU_SOURCE -Isrc -Iinclude scripts/blas_routines.c -o "$work/blas_routines"
"$work/blas_routines" >"$work/blas_routines.md"
if [ "${1:-}" = --check ]; then
    diff -u docs/actors/blas_routines.md "$work/blas_routines.md" ||
        { echo "docs/actors/blas_routines.md: run scripts/blas_routines.sh"; exit 1; }
else
    mv "$work/blas_routines.md" docs/actors/blas_routines.md
fi
