#!/bin/bash
# Compares the library's binary interface with the stored one, share/abi/libtroupe.abi: nothing may be removed or
# changed except by the rules of docs/abi.md. Exit status 77: abidiff is missing, or the library has no debug
# information to compare.
# Usage: scripts/check_abi.sh LIBTROUPE_SO            compare
#        scripts/check_abi.sh --update LIBTROUPE_SO   replace the stored one
set -euo pipefail
cd "$(dirname "$0")/.."
kept=share/abi/libtroupe.abi

command -v abidiff >/dev/null || { echo "no abidiff (Debian: abigail-tools): skipped"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Extracts the interface that the public headers show, for both sides of the comparison: abidiff itself treats a type
# without a location in a header, as in the stored interface, as private and would ignore its changes.
describe() {
    abidw --headers-dir include --drop-private-types --exported-interfaces-only --no-show-locs --no-corpus-path \
        --no-comp-dir-path --no-elf-needed "$1"
}

if [ "${1:-}" = --update ]; then
    mkdir -p share/abi
    describe "$2" >"$kept"
    exit
fi
describe "$1" >"$work/now.abi"
code=0
abidiff --no-show-locs --no-added-syms "$kept" "$work/now.abi" >"$work/report" || code=$?
if [ $((code & 3)) -ne 0 ]; then # abidiff itself has failed
    cat "$work/report"
    exit 1
fi
if [ $((code & 12)) -eq 0 ]; then # nothing changed, or what may
    exit 0
fi
cat "$work/report"
echo "the binary interface has changed: docs/abi.md has the rules; scripts/check_abi.sh --update stores it"
exit 1
