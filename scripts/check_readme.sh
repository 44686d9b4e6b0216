#!/bin/bash
# The examples of README.md in C and C++ must be examples/first.c and first.cpp, which are compiled, line by line.
set -euo pipefail
cd "$(dirname "$0")/.."

# check LANGUAGE FILE: the one block of that language is the file.
check() {
    local blocks
    blocks=$(grep -c "^\`\`\`$1\$" README.md || true)
    if [ "$blocks" -ne 1 ]; then
        echo "README.md: expected one block of $1, got $blocks"
        exit 1
    fi
    diff -u --label "$2" --label "README.md, the block of $1" "$2" \
        <(sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/{/^\`\`\`/d;p}" README.md)
}
check c examples/first.c
check cpp examples/first.cpp
