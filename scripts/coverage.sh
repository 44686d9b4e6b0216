#!/bin/bash
# Writes docs/coverage.md from the descriptions of the conformance suite (tests/conformance), which its programs print.
# With --check: fails if the file differs. Usage: coverage.sh BUILD_DIR [--check]
set -euo pipefail
build=$(realpath -e "$1")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
    cat <<'TEXT'
# Coverage

Written by `scripts/coverage.sh` from the descriptions in `tests/conformance`, whose programs try each line on both
backends: what a backend does not leave out is compared with a reference and run again after deaths of its worker, what
it leaves out (`tests/conformance/exclusions.def`) must be refused with `TRP_E_UNSUPPORTED`. "Or ends with a fault": a
request of the operation may write what it reads, and then need not be able to run again.
TEXT
    for program in "$build"/tests/conformance/*_test; do
        echo
        "$program" --table
    done
} >"$work/coverage.md"
if [ "${2:-}" = --check ]; then
    diff -u docs/coverage.md "$work/coverage.md" || { echo "docs/coverage.md: run scripts/coverage.sh BUILD_DIR"; exit 1; }
else
    mv "$work/coverage.md" docs/coverage.md
fi
