#!/bin/bash
# Writes docs/layouts.md from the structs of src/wire. With --check: fails if the file differs.
# Usage: layouts.sh [--check], CC names the compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${CC:-cc} -std=c17 -D_GNU_SOURCE -Isrc -Iinclude scripts/layouts.c -o "$work/layouts"
"$work/layouts" >"$work/layouts.md"
if [ "${1:-}" = --check ]; then
    diff -u docs/layouts.md "$work/layouts.md" || { echo "docs/layouts.md: run scripts/layouts.sh"; exit 1; }
else
    mv "$work/layouts.md" docs/layouts.md
fi
