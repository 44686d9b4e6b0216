#!/bin/bash
# Every example on a GPU, by the programs that users have: each opens the best device. TROUPE_COMMAND is the
# command of the build, beside whose folder the examples lie.
set -uo pipefail
bin=$(dirname "$(realpath "${TROUPE_COMMAND:?TROUPE_COMMAND is not set: the path of the troupe command}")")
examples=$bin/../examples
source=$(realpath "$(dirname "$0")/../../examples")
export TROUPE_WORKER=${TROUPE_WORKER:-$bin/troupe-worker}

# Reads all that doctor prints: one that loses its reader in between ends with a signal, as if there were no GPU.
if ! "$TROUPE_COMMAND" doctor --quick 2>/dev/null | grep '✓ cuda ' >/dev/null; then
    echo "skipped: there is no GPU"
    exit 77
fi

failures=0 runs=0
# run NAME ARGUMENTS...: the example must end with 0
run() { run_script "$1" "$examples/$1" "${@:2}"; }
run_script() {
    local name=$1 output code
    shift
    output=$("$@" 2>&1)
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
    gpt2)
        run gpt2/gpt2 "$source/gpt2/text.txt" -kill 3
        run gpt2/gpt2 "$source/gpt2/text.txt" -kill 3 -bf16 1 -context 128 -width 256 -layers 4
        ;;
    server) run_script server "$(dirname "$0")/../examples/server_test.sh" "$examples/server" 20 ;;
    *)
        echo "examples/$(basename "$folder"): say in tests/gpu/examples_test.sh how it is run"
        failures=$((failures + 1))
        ;;
    esac
done
echo "$runs examples, $failures failed"
[ "$failures" -eq 0 ]
