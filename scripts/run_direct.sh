#!/bin/bash
# Runs the test programs of a build folder without CTest, for a machine with only that folder,
# such as a GPU host. Like run_tests.sh, ends with "N passed, N failed, N skipped".
# Usage: scripts/run_direct.sh BUILD_DIR [FOLDER...]     (default: e2e conformance fault gpu)
# FOLDER/gpu runs the programs of a folder on the GPU, as TROUPE_TEST_BACKEND=cuda does for all. The scripts
# of a folder run too, where the sources are beside this one.
# Libraries beside the programs (libcmocka, libxxhash) are found through LD_LIBRARY_PATH.
set -uo pipefail
build=$(realpath -e "$1") || exit 2
shift
[ $# -gt 0 ] || set -- e2e conformance fault gpu
sources=$(realpath "$(dirname "$0")/../tests")
export TROUPE_WORKER=$build/bin/troupe-worker TROUPE_COMMAND=$build/bin/troupe
export TROUPE_PEER_RUNNER=$build/tests/peer/peer_runner
backend=${TROUPE_TEST_BACKEND:-}

passed=0 failed=0 skipped=0
for folder in "$@"; do
    export TROUPE_TEST_BACKEND=$backend
    [ "${folder%/gpu}" = "$folder" ] || export TROUPE_TEST_BACKEND=cuda
    for program in "$build/tests/${folder%/gpu}"/*_test "$sources/$folder"/*_test.sh; do
        [ -x "$program" ] || continue
        start=$SECONDS
        output=$("$build/tests/sandbox" --timeout 110 "$program" 2>&1)
        code=$?
        case $code in
        0) result=passed passed=$((passed + 1)) ;;
        77) result=skipped skipped=$((skipped + 1)) ;;
        *) result="FAILED ($code)" failed=$((failed + 1)) ;;
        esac
        printf '%-40s %-12s %4d s\n' "$folder/$(basename "${program%.sh}" _test)" "$result" $((SECONDS - start))
        [ $code -eq 0 ] || sed 's/^/    /' <<<"$output"
    done
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
