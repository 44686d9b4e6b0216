#!/bin/bash
# Checks that the examples in the README and in docs/install.md equal examples/first.c and first.cpp, which are
# compiled, and that links between pages and to their sections have targets.
set -euo pipefail
cd "$(dirname "$0")/.."

# check PAGE LANGUAGE FILE: compares the only block of that language with the file.
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

# Links to files of the repository and to sections of pages; links with a scheme are ignored.
# sections PAGE: prints the link target of each heading: lower case, spaces as hyphens, punctuation left out.
sections() {
    awk '/^```/ { code = !code } !code && sub(/^#+ /, "")' "$1" |
        sed -E 's/\[([^]]*)\]\([^)]*\)/\1/g; s/[^[:alnum:]_ -]//g; y/ABCDEFGHIJKLMNOPQRSTUVWXYZ /abcdefghijklmnopqrstuvwxyz-/'
}
broken=0
while IFS=: read -r page link; do
    target=$page
    [ -z "${link%%#*}" ] || target=$(dirname "$page")/${link%%#*}
    if [ ! -e "$target" ]; then
        echo "$page: no $link"
        broken=1
    elif [[ $link == *.md#* || $link == \#* ]] && ! grep -qxF -- "${link#*#}" <(sections "$target"); then
        echo "$page: no section $link"
        broken=1
    fi
done < <(grep -oE '\]\([^) ]+\)' ./*.md docs/*.md docs/*/*.md examples/*/*.md tests/*/README.md bench/results/*.md |
         sed -E 's/\]\((.*)\)$/\1/' | grep -vE ':(https?|mailto):')
exit $broken
