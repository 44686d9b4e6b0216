#!/bin/bash
# The C example of README.md must be examples/first.c, which the build compiles, line by line.
set -euo pipefail
cd "$(dirname "$0")/.."

blocks=$(grep -c '^```c$' README.md || true)
if [ "$blocks" -ne 1 ]; then
    echo "README.md: expected one block of C, got $blocks"
    exit 1
fi
diff -u --label examples/first.c --label "README.md, the block of C" examples/first.c \
    <(sed -n '/^```c$/,/^```$/{/^```/d;p}' README.md)
