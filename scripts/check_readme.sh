#!/bin/bash
# The examples in the README and in docs/install.md must be examples/first.c and first.cpp, which are compiled, line
# by line; and the links between pages lead somewhere.
set -euo pipefail
cd "$(dirname "$0")/.."

# check PAGE LANGUAGE FILE: the one block of that language is the file.
check() {
    local blocks
    blocks=$(grep -c "^\`\`\`$2\$" "$1" || true)
    if [ "$blocks" -ne 1 ]; then
        echo "$1: expected one block of $2, got $blocks"
        exit 1
    fi
    diff -u --label "$3" --label "$1, the block of $2" "$3" \
        <(sed -n "/^\`\`\`$2\$/,/^\`\`\`\$/{/^\`\`\`/d;p}" "$1")
}
check README.md c examples/first.c
check docs/install.md cpp examples/first.cpp

# Links to files of the repository; those with a scheme and those within a page are left out.
broken=0
while IFS=: read -r page link; do
    target=$(dirname "$page")/${link%%#*}
    [ -e "$target" ] || { echo "$page: no $link"; broken=1; }
done < <(grep -oE '\]\([^)# ][^) ]*\)' ./*.md docs/*.md docs/*/*.md examples/*/*.md tests/*/README.md bench/results/*.md |
         sed -E 's/\]\((.*)\)$/\1/' | grep -vE ':(https?|mailto):')
exit $broken
