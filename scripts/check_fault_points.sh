#!/bin/bash
# Checks that a release build has no fault points (src/base/fault_point.h): its files must contain neither
# their code nor the names of the points and of the variables that arm them.
# Usage: scripts/check_fault_points.sh FILE...     libraries and programs of a release build
set -euo pipefail
names='trp__fault_point|TROUPE_FAULT_POINT|PROMOTE_UNSTORED|RESUME_TAKING_ALONE|CACHE_HALF_WRITTEN'
failures=0
for file in "$@"; do
    [ -f "$file" ] || { echo "no such file: $file"; exit 1; }
    found=$({ nm "$file" 2>/dev/null; strings -a "$file"; } | grep -oE "$names" | sort -u || true)
    [ -z "$found" ] || { echo "$file has fault points:" $found; failures=$((failures + 1)); }
done
[ "$failures" -eq 0 ]
