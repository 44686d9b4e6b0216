#!/bin/bash
# The completions of shells: that they parse, and what they complete. They are made of the tables that
# the command parses with.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

for shell in bash zsh fish; do
    "$troupe" completion $shell >"$tmp/$shell" || fail "completion $shell"
    if command -v $shell >/dev/null; then
        $shell -n "$tmp/$shell" || fail "completion $shell: it does not parse"
    fi
done
run 2 completion && says err 'expected'
run 2 completion csh && says err "expected bash, zsh or fish, got 'csh'"

# All that help texts list is there.
while read -r command sub; do
    "$troupe" help "$command" ${sub:+"$sub"} | sed -n 's/^  \(..\) *--\([a-z0-9-]*\).*/\2/p' >"$tmp/options"
    [ -s "$tmp/options" ] || fail "help $command $sub lists no options"
    while read -r option; do
        for shell in bash zsh fish; do
            pattern="--$option"
            [ $shell = fish ] && pattern="-n '__troupe_at $command${sub:+ $sub}' -l $option"
            grep -q -- "$pattern" "$tmp/$shell" || fail "$shell: no --$option of $command $sub"
        done
    done <"$tmp/options"
done <<'END'
matmul
conv
pool
norm
attention
tune
kernels
demo
doctor
top
bench
version
cutlass gemm
cutlass grouped
cutlass conv
cutlass kernels
cutlass pack
cache ls
cache warm
cache pack
cache prune
proofs
END

# bash: completes WORDS, the last of which is being typed.
# shellcheck disable=SC1090,SC1091
. "$tmp/bash"
completes() {
    expected=$1
    shift
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    compopt() { :; }
    _troupe
    [ "${COMPREPLY[*]}" = "$expected" ] || fail "bash: '$*': expected '$expected', got '${COMPREPLY[*]}'"
}
completes 'matmul' troupe matm
completes '--activation' troupe matmul --act
completes 'cuda' troupe matmul --device c
completes 'cuda' troupe matmul a.npy --device = c
completes 'best cuda host' troupe matmul --device ''
completes 'prune' troupe cache pr
completes '--remove' troupe cache verify --rem
completes 'gemm grouped' troupe cutlass g
completes 'dispatch' troupe bench disp
completes 'zsh' troupe completion z
completes 'doctor' troupe help doc
completes '' troupe top 1
touch "$tmp/x y.npy"
(cd "$tmp" && completes 'x y.npy' troupe matmul x)
(cd "$tmp" && completes 'x y.npy' troupe matmul a.npy -o x)

# fish knows what it would complete.
if command -v fish >/dev/null; then
    for line in 'matm=matmul' 'matmul --act=--activation' 'matmul --device c=cuda' 'cache pr=prune' 'cutlass gr=grouped' \
        'bench disp=dispatch' 'help doc=doctor'; do
        HOME=$tmp XDG_CONFIG_HOME=$tmp XDG_DATA_HOME=$tmp XDG_CACHE_HOME=$tmp \
            fish -N -c "source $tmp/fish; complete -C 'troupe ${line%=*}'" 2>"$tmp/err" >"$tmp/out"
        grep -q "^${line#*=}" "$tmp/out" || fail "fish: '${line%=*}' is not completed to '${line#*=}'"
    done
fi

finish
