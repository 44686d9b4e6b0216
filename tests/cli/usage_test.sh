#!/bin/sh
# Help texts, versions, and what is not understood.
. "$(dirname "$0")/lib.sh"

run 0 --help && says out '^usage: troupe' && says out 'matmul' && says out 'doctor'
run 0 -h && says out '^usage: troupe'
run 0 help && says out '^usage: troupe'
run 0 --version && says out '^troupe [0-9]+\.[0-9]+\.[0-9]+$'

for command in matmul conv pool norm attention dnn tune cache demo doctor top; do
    run 0 help $command && says out "^usage: troupe $command"
    run 0 $command --help && says out '--help'
    run 2 $command --no-such-option && says err "$command: unknown option '--no-such-option'"
    run 2 $command -Z && says err "unknown option '-Z'"
done

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
