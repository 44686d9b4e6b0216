#!/bin/bash
# clang-tidy over src/, cli/ and bench/ with the checks of .clang-tidy; every finding is an error.
# It reads how files are compiled from a clang build folder (default build/dev-clang, made if absent).
# Usage: scripts/tidy.sh [BUILD_DIR]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/dev-clang}
# Configuring is enough: nothing in the sources is generated.
cmake --preset dev -B "$build" -DCMAKE_C_COMPILER=clang >/dev/null

# clang-tidy also counts the warnings that it does not show, on stderr: those lines are left out.
find src cli bench -name '*.c' -print0 |
    xargs -0 -r -n 4 -P "$(nproc)" clang-tidy -p "$build" --quiet \
        2> >(grep -vE '^[0-9]+ warnings? (and [0-9]+ errors? )?generated|^$' >&2)
