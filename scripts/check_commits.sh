#!/bin/bash
# Checks the form of commits that CONTRIBUTING.md requires: a subject "area: what it does" of at most 72 columns
# without a period, an empty line, a body. Ignores merges.
# Usage: check_commits.sh [BASE]: commits since BASE. By default those since origin/main that are newer than this script,
# because older ones do not follow the rule. Without a base or history it reports that and passes.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:-origin/main}
if ! git rev-parse --quiet --verify "$base^{commit}" >/dev/null 2>&1; then
    echo "commits: no $base here, none checked"
    exit 0
fi
older=()
if [ $# -eq 0 ]; then
    introduced=$(git log --diff-filter=A --format=%H -- scripts/check_commits.sh | tail -n 1)
    older=(${introduced:+"^$introduced"})
fi
count=0
wrong=0
say() {
    echo "${commit:0:10} $subject: $1"
    wrong=1
}
for commit in $(git rev-list --no-merges "$base..HEAD" "${older[@]}"); do
    subject=$(git log -1 --format=%s "$commit")
    count=$((count + 1))
    [ ${#subject} -le 72 ] || say "expected at most 72 columns, got ${#subject}"
    [[ $subject =~ ^[A-Za-z0-9_,/.\ -]+:\ . ]] || say 'expected "area: what it does"'
    [[ $subject != *. ]] || say "expected no period at its end"
    [ -n "$(git log -1 --format=%b "$commit")" ] || say "expected a body: what was wrong, why this way, how it was checked"
done
echo "commits: $count since $base"
exit $wrong
