#!/bin/bash
# Formats every C file of the project by clang-format, or with --check fails if a file would change.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
[ "${1:-}" != --check ] || mode=(--dry-run -Werror)
find include src cli bench examples tests -name '*.[ch]' -print0 |
    xargs -0 -r clang-format --style=file "${mode[@]}"
