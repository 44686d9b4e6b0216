#!/bin/bash
# Runs the suites of the given build folders and prints the sums in a last line:
# "N passed, N failed, N skipped". Fails if a test failed or a suite could not run.
# Usage: scripts/run_tests.sh BUILD_DIR...
# With TROUPE_TALLY=FILE it also appends "passed failed skipped" to that file, for .ci/run.
set -uo pipefail

jobs=${TROUPE_TEST_JOBS:-$((2 * $(nproc)))} # many tests wait more than they compute
passed=0 failed=0 skipped=0
for build in "$@"; do
    [ $# -eq 1 ] || echo "--- $build"
    report=$build/junit.xml
    rm -f "$report"
    ctest --test-dir "$build" -j "$jobs" --output-on-failure --no-label-summary --no-tests=error \
        --output-junit junit.xml
    code=$?

    # ctest counts tests, failures and skips in the attributes of <testsuite>.
    count() { sed -n "s/^[[:space:]]*$1=\"\([0-9]*\)\".*/\1/p" "$report" 2>/dev/null | head -n 1; }
    tests=$(count tests) bad=$(count failures) left=$(count skipped) off=$(count disabled)
    tests=${tests:-0} bad=${bad:-0} left=$((${left:-0} + ${off:-0}))
    if [ "$code" -ne 0 ] && [ "$bad" -eq 0 ]; then
        bad=1 # the suite itself could not run
        [ "$tests" -gt 0 ] || tests=1
    fi
    passed=$((passed + tests - bad - left))
    failed=$((failed + bad))
    skipped=$((skipped + left))
done

[ -z "${TROUPE_TALLY:-}" ] || echo "$passed $failed $skipped" >>"$TROUPE_TALLY"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
