#!/bin/bash
# Every example on a GPU, by the programs that users have: each opens the best device. TROUPE_COMMAND is the
# command of the build, beside whose folder the examples lie.
set -uo pipefail
bin=$(dirname "$(realpath "${TROUPE_COMMAND:?TROUPE_COMMAND is not set: the path of the troupe command}")")
examples=$bin/../examples
source=$(realpath "$(dirname "$0")/../../examples")
export TROUPE_WORKER=${TROUPE_WORKER:-$bin/troupe-worker}

if ! "$TROUPE_COMMAND" doctor --quick 2>/dev/null | grep -q '✓ cuda '; then
    echo "skipped: there is no GPU"
    exit 77
fi

failures=0 runs=0
# run NAME ARGUMENTS...: it must end with 0, and must have said nothing of another device
run() {
    local name=$1 output code
    shift
    output=$("$examples/$name" "$@" 2>&1)
    code=$?
    runs=$((runs + 1))
    printf '%-24s %s\n' "$name" "$([ $code -eq 0 ] && echo passed || echo "FAILED ($code)")"
    [ $code -eq 0 ] || { sed 's/^/    /' <<<"$output"; failures=$((failures + 1)); }
}

# What is in examples/ runs without arguments, what is in a folder there as its case says.
for file in "$source"/*.c; do
    run "$(basename "$file" .c)"
done
for folder in "$source"/*/; do
    case $(basename "$folder") in
    custom) run custom/scale_clamp "$examples/custom/scale_clamp_actor.so" ;;
    digits) run digits/digits "$source/digits/digits.npy" ;;
    *)
        echo "examples/$(basename "$folder"): say in tests/gpu/examples_test.sh how it is run"
        failures=$((failures + 1))
        ;;
    esac
done
echo "$runs examples, $failures failed"
[ "$failures" -eq 0 ]
