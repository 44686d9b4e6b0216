#!/bin/sh
# Help texts, versions, and what is not understood.
. "$(dirname "$0")/lib.sh"

run 0 --help && says out '^usage: troupe' && says out 'matmul' && says out 'doctor'
run 0 -h && says out '^usage: troupe'
run 0 help && says out '^usage: troupe'
run 0 --version && says out '^troupe [0-9]+\.[0-9]+\.[0-9]+$'

# Every command, as the table of them lists it, is in the manual too.
"$troupe" --help | sed -n 's/^  \([a-z]*\) .*/\1/p' >"$tmp/commands"
[ "$(wc -l <"$tmp/commands")" -ge 16 ] || fail "--help lists too few commands"
manual=$here/../../docs/man/troupe.1
while read -r command; do
    grep -q "^.B troupe $command" "$manual" || fail "the manual has no $command"
    run 0 help "$command" && says out "^usage: troupe $command"
    run 0 "$command" --help && says out '--help'
done <"$tmp/commands"

for command in matmul conv pool norm attention proofs tune cache demo doctor top completion version; do
    run 2 $command --no-such-option && says err "$command: unknown option '--no-such-option'"
    run 2 $command -Z && says err "unknown option '-Z'"
done

# What was meant.
run 2 matmlu && says err "unknown command 'matmlu', did you mean 'matmul'\?"
run 2 zebra && says err "unknown command 'zebra' \(see"
run 2 cache prnue && says err "unknown subcommand 'prnue', did you mean 'prune'\?"
run 2 cutlass pakc && says err "did you mean 'pack'\?"
run 2 matmul --chekc && says err "unknown option '--chekc', did you mean '--check'\?"
run 2 matmul --trans_a=t && says err "did you mean '--trans-a'\?"
run 2 matmul a.npy b.npy -o c.npy --device cudda && says err "got 'cudda', did you mean 'cuda'\?"
run 2 matmul a.npy b.npy -o c.npy --activation geul && says err "did you mean 'gelu'\?"
run 2 conv a.npy b.npy -o c.npy --activation sigmiod && says err "did you mean 'sigmoid'\?"
run 2 cutlass gemm a.npy b.npy -o c.npy --epilogue 'rleu(acc)' && says err "did you mean 'relu'\?"
run 2 cutlass gemm a.npy b.npy -o c.npy --kernel none_such && says err "no kernel is called 'none_such'"
run 2 bench dispatch --only sustianed && says err "did you mean 'sustained'\?"
run 2 bench dispach && says err "did you mean 'dispatch'\?"

# Wrong values, found before and after files are opened.
matrix a f32 C 4 6
matrix b f32 C 6 5
array x f32 C 2,4,8,8
array w f32 C 4,4,3,3
run 2 matmul "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/c.npy" --alpha one && says err '--alpha'
run 2 matmul "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/c.npy" --workspace -1 && says err '--workspace'
run 2 matmul "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/c.npy" --gradient x=y && says err '--gradient'
run 2 matmul "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/c.npy" --scale-d much && says err '--scale-d'
run 2 matmul "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/c.npy" --type f64 --compute tf32 && says err 'tf32 is for'
run 2 conv "$tmp/x.npy" "$tmp/w.npy" -o "$tmp/y.npy" --pad 1,2,3 && says err '--pad: expected 2 numbers'
run 2 conv "$tmp/x.npy" "$tmp/w.npy" -o "$tmp/y.npy" --pad one && says err '--pad: expected'
run 2 conv "$tmp/x.npy" "$tmp/w.npy" -o "$tmp/y.npy" --stride 0 && says err '--stride: expected at least 1'
run 2 conv "$tmp/x.npy" "$tmp/w.npy" -o "$tmp/y.npy" --dilation 0 && says err '--dilation: expected at least 1'
run 2 conv "$tmp/x.npy" "$tmp/w.npy" -o "$tmp/y.npy" --pass data --stride 2 && says err 'expected --size'
run 2 pool "$tmp/x.npy" -o "$tmp/y.npy" --window 0 && says err '--window'
run 2 pool "$tmp/x.npy" -o "$tmp/y.npy" --window 99 && says err '--window'
run 2 pool "$tmp/x.npy" -o "$tmp/y.npy" --window 2 --pad 2 && says err '--pad: expected less'
run 2 norm "$tmp/x.npy" -o "$tmp/y.npy" --mode layer --scale s.npy --epsilon -1 && says err '--epsilon'
run 2 attention "$tmp/x.npy" "$tmp/x.npy" "$tmp/x.npy" -o "$tmp/y.npy" --dropout 1 && says err '--dropout'
run 2 attention "$tmp/x.npy" "$tmp/x.npy" "$tmp/x.npy" -o "$tmp/y.npy" --lengths 1,2,3 && says err '--lengths'
run 2 cutlass gemm "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/c.npy" --with z=1 && says err '--with z=1'
run 2 cutlass gemm "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/c.npy" --epilogue 'acc + z' && says err '--epilogue'
run 2 cutlass grouped "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/c.npy" --sizes 1,2 && says err '--sizes'
run 2 cutlass conv "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/c.npy" --input 2 --filter 3 && says err '--input'
run 2 cutlass kernels --capability 7 && says err '--capability'
run 2 cache prune --size much && says err '--size'
run 2 cache explain xyz && says err 'xyz'
run 2 kernels -o "$tmp/p" --arch x && says err '--arch'
run 2 bench dispatch --size 70000 && says err '--size'
run 2 top zero && says err 'zero'
run 2 top --interval 0 1 && says err '--interval'
[ -e "$tmp/c.npy" ] || [ -e "$tmp/y.npy" ] && fail "a wrong value made a file"

# The version, and that of the libraries.
run 0 version && says out '^troupe [0-9.]+$' && says out '^  ABI +[0-9]+' && says out '^  actor ABI +[0-9]+' &&
    says out '^  build ' && says out '^  worker +/' && says out '^  openblas +[0-9.]+ +/' && says out '^  cudnn '
run 0 version --brief && says out '^troupe [0-9.]+$'
[ "$(wc -l <"$tmp/out")" -eq 1 ] || fail "version --brief has more than a line"

run 2 && says err 'expected a command'
run 2 nonsense && says err "unknown command 'nonsense'"
run 2 --nonsense && says err "unknown option '--nonsense'"
run 2 help nonsense && says err "unknown command 'nonsense'"

run 2 matmul && says err 'expected 2 operands, got 0'
run 2 matmul a.npy b.npy && says err 'expected -o'
run 2 matmul a.npy b.npy c.npy -o d.npy && says err 'expected 2 operands, got 3'
run 2 matmul a.npy b.npy -o && says err '--output needs a value'
run 2 matmul a.npy b.npy -o '' && says err '--output: expected C.npy'
run 2 matmul a.npy b.npy -o c.npy --device toaster && says err 'expected best.cuda.host'
run 2 matmul a.npy b.npy -o c.npy --gpu one && says err '--gpu: expected N'
run 2 matmul a.npy b.npy -o c.npy --gpu -1 && says err '--gpu: expected N'
run 2 matmul a.npy b.npy -o c.npy --gpu 99999999999999999999 && says err '--gpu: expected N'
run 2 matmul a.npy b.npy -o c.npy --gpu 0 --device host && says err 'contradict'
run 2 matmul a.npy b.npy -o c.npy --quiet=yes && says err 'takes no value'
run 2 demo leftover && says err 'expected 0 operands'
run 2 demo --size 0 && says err '--size'
run 2 demo --size 100001 && says err '--size'

# A full disk is a failed command, however well the rest went.
if [ -c /dev/full ]; then
    "$troupe" --help >/dev/full 2>"$tmp/err"
    [ $? -eq 1 ] || fail "--help to a full disk: exit status other than 1"
    says err 'could not be written'
fi

finish
