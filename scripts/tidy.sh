#!/bin/bash
# Runs clang-tidy on src/, cli/ and bench/ with the checks of .clang-tidy; every finding is an error.
# Reads the compile commands of a clang build folder (default build/dev-clang, created if missing).
# Usage: scripts/tidy.sh [BUILD_DIR]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/dev-clang}
# Configuring is enough, because it writes the only header that is generated, and no source is.
cmake --preset dev -B "$build" -DCMAKE_C_COMPILER=clang >/dev/null

# Drops the lines on stderr in which clang-tidy counts suppressed warnings.
find src cli bench -name '*.c' -print0 |
    xargs -0 -r -n 4 -P "$(nproc)" clang-tidy -p "$build" --quiet \
        2> >(grep -vE '^[0-9]+ warnings? (and [0-9]+ errors? )?generated|^$' >&2)
