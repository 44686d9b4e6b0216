#!/bin/bash
# The table of README.md names functions: each must be in the file that it names.
set -euo pipefail
folder=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$folder/../.." && pwd)
checked=0 bad=0
# Of each row of the table: `src/...` sets the file, the other `names` behind it are functions.
while read -r word; do
    case $word in
    src/*)
        file=$word
        [ -f "$root/$file" ] || { echo "$file does not exist"; bad=1; }
        ;;
    *)
        checked=$((checked + 1))
        grep -Eq "(^|[ *])$word\(" "$root/$file" || { echo "$file has no function $word"; bad=1; }
        ;;
    esac
done < <(sed -n '/^## Which step/,/^## What is left/p' "$folder/README.md" | grep '^|.*src/' |
    sed 's/.*| \(`src.*\) |$/\1/' | grep -o '`[^`]*`' | tr -d '`')
echo "$checked functions of the table exist"
[ "$bad" -eq 0 ] && [ "$checked" -gt 30 ]
