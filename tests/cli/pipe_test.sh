#!/bin/sh
# Arrays through pipes, in every command that reads and writes them; the terminal's share of it.
. "$(dirname "$0")/lib.sh"

matrix a f32 C 37 53
matrix b f32 F 53 29
array x f32 C 2,4,9,9
array w f32 C 6,4,3,3
array s f32 C 4
array q f32 C 2,3,5,8
matrix v f32 V 29 1

# piped STATUS INPUT ARGS...: the command with that file through a pipe; its output in $tmp/out, too.
piped() {
    expected=$1
    input=$2
    shift 2
    cat "$input" | "$troupe" "$@" >"$tmp/out" 2>"$tmp/err"
    status=$?
    [ $status -eq "$expected" ] || fail "troupe $* by a pipe: exit status $status, expected $expected"
}

# both NAME COMMAND ARGS...: the first array of the command line is $tmp/NAME.npy: by a file and by
# pipes the results are the same bytes.
both() {
    name=$1
    command=$2
    shift 2
    # shellcheck disable=SC2086  # "cutlass gemm" is two words
    {
        run 0 $command "$tmp/$name.npy" "$@" -o "$tmp/file.npy" --device "$device"
        piped 0 "$tmp/$name.npy" $command - "$@" -o - --device "$device"
    }
    cmp -s "$tmp/out" "$tmp/file.npy" || fail "$command: by pipes: other bytes than by files"
    grep -q 'worker process' "$tmp/err" || fail "$command: the report did not go to standard error"
}

both a matmul "$tmp/b.npy"
both a matmul "$tmp/b.npy" --bias "$tmp/v.npy" --activation relu
both a 'cutlass gemm' "$tmp/b.npy"
both x conv "$tmp/w.npy" --pad 1
both x pool --window 3
both x norm --mode batch --training --scale "$tmp/s.npy"
both q attention "$tmp/q.npy" "$tmp/q.npy" --causal

# In the place of any input or output; quiet, nothing but the array comes.
run 0 matmul "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/c.npy" --bias "$tmp/v.npy" --device "$device"
piped 0 "$tmp/v.npy" matmul "$tmp/a.npy" "$tmp/b.npy" --bias - -o - -q --device "$device"
cmp -s "$tmp/out" "$tmp/c.npy" || fail "--bias by a pipe: other bytes"
[ -s "$tmp/err" ] && fail "a quiet command wrote to standard error"
run 0 matmul "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/d.npy" --activation relu --aux "$tmp/aux.npy" --device "$device"
piped 0 "$tmp/a.npy" matmul - "$tmp/b.npy" -o "$tmp/d.npy" --activation relu --aux - --device "$device"
cmp -s "$tmp/out" "$tmp/aux.npy" || fail "--aux by a pipe: other bytes"

# One after the other: what comes out goes in.
"$troupe" matmul "$tmp/a.npy" "$tmp/b.npy" -o - -q --device "$device" |
    "$troupe" matmul - "$tmp/t.npy" -o "$tmp/e.npy" -q --device "$device" 2>"$tmp/err"
says err 't.npy'
matrix t f32 C 29 7
"$troupe" matmul "$tmp/a.npy" "$tmp/b.npy" -o - -q --device "$device" |
    "$troupe" matmul - "$tmp/t.npy" -o "$tmp/e.npy" --check --device "$device" >"$tmp/out" || fail "a chain of two"
has e '37, 7'

# FIFOs by name, and a file in place of the pipe.
mkfifo "$tmp/in" "$tmp/result"
cat "$tmp/a.npy" >"$tmp/in" &
cat "$tmp/result" >"$tmp/f.npy" &
run 0 matmul "$tmp/in" "$tmp/b.npy" -o "$tmp/result" --device "$device"
wait
run 0 matmul "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/c.npy" --device "$device"
cmp -s "$tmp/f.npy" "$tmp/c.npy" || fail "by FIFOs: other bytes"
"$troupe" matmul - "$tmp/b.npy" -o - -q --device "$device" <"$tmp/a.npy" >"$tmp/g.npy" || fail "redirected files"
cmp -s "$tmp/g.npy" "$tmp/c.npy" || fail "redirected: other bytes"

# What comes is no array, too little, too much; endless.
printf 'hello\n' >"$tmp/text"
piped 1 "$tmp/text" matmul - "$tmp/b.npy" -o "$tmp/c2.npy" && says err 'standard input: not a .npy file'
piped 1 /dev/null matmul - "$tmp/b.npy" -o "$tmp/c2.npy" && says err 'standard input: empty file'
head -c 1000 "$tmp/a.npy" >"$tmp/short"
piped 1 "$tmp/short" matmul - "$tmp/b.npy" -o "$tmp/c2.npy" && says err 'standard input: truncated data'
head -c 50 "$tmp/a.npy" >"$tmp/shorter"
piped 1 "$tmp/shorter" matmul - "$tmp/b.npy" -o "$tmp/c2.npy" && says err 'standard input: truncated header'
yes | "$troupe" matmul - "$tmp/b.npy" -o "$tmp/c2.npy" 2>"$tmp/err" && fail "endless text is an array"
says err 'not a .npy file'
cat "$tmp/a.npy" /dev/zero 2>/dev/null | "$troupe" matmul - "$tmp/b.npy" -o "$tmp/c2.npy" 2>"$tmp/err" &&
    fail "an endless array"
says err 'standard input: trailing bytes'
npy huge "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000000), }" 100
cat "$tmp/huge.npy" /dev/zero 2>/dev/null | "$troupe" matmul - "$tmp/b.npy" -o "$tmp/c2.npy" 2>"$tmp/err" &&
    fail "an array of 4 PB"
says err 'standard input: an array of 3.55 PiB, and .* of memory are left'
[ -e "$tmp/c2.npy" ] && fail "what is no array made a file"

# "-" stands for one input, and for one output.
piped 2 "$tmp/a.npy" matmul - - -o "$tmp/c2.npy" && says err "expected '-' for one operand alone"
run 2 matmul "$tmp/a.npy" "$tmp/b.npy" -o - --activation relu --aux - && says err 'expected different files'
run 2 norm "$tmp/x.npy" -o - --mode batch --training --scale "$tmp/s.npy" --mean-out - &&
    says err "expected '-' for one result alone"

# A reader that goes away, and a disk that is full, are failures.
"$troupe" matmul "$tmp/a.npy" "$tmp/b.npy" -o - --device "$device" 2>"$tmp/err" | true
if [ -c /dev/full ]; then
    "$troupe" matmul "$tmp/a.npy" "$tmp/b.npy" -o - --device "$device" >/dev/full 2>"$tmp/err" && fail "a full disk"
    says err 'writing standard output: No space left'
fi

# Outputs are tried before anything is read: the input is a FIFO that nobody writes to.
mkfifo "$tmp/never"
run 1 matmul "$tmp/never" "$tmp/b.npy" -o "$tmp/nowhere/c.npy" && says err 'writing .*nowhere/c.npy'
run 1 conv "$tmp/never" "$tmp/w.npy" -o "$tmp/nowhere/c.npy" && says err 'writing .*nowhere/c.npy'
run 1 cutlass gemm "$tmp/never" "$tmp/b.npy" -o "$tmp/nowhere/c.npy" && says err 'writing .*nowhere/c.npy'
run 1 norm "$tmp/never" --mode layer --scale "$tmp/never" --backward "$tmp/never" --dx "$tmp/nowhere/c.npy" &&
    says err 'writing .*nowhere/c.npy'
run 1 kernels -o "$tmp/nowhere/k" && says err 'nowhere/k'

# A dtype that is not taken: how to convert it.
npy i8 "{'descr': '<i8', 'fortran_order': False, 'shape': (4, 4), }" 128
npy u2 "{'descr': '<u2', 'fortran_order': False, 'shape': (4, 4), }" 32
npy c16 "{'descr': '<c16', 'fortran_order': False, 'shape': (4, 4), }" 256
npy i4 "{'descr': '<i4', 'fortran_order': False, 'shape': (4, 4), }" 64
run 1 matmul "$tmp/i8.npy" "$tmp/b.npy" -o "$tmp/c2.npy" && says err "'<i8'.*\.astype\(np\.float32\)"
run 1 matmul "$tmp/u2.npy" "$tmp/b.npy" -o "$tmp/c2.npy" && says err "'<u2'.*\.astype\(np\.float32\)"
run 1 matmul "$tmp/i4.npy" "$tmp/i4.npy" -o "$tmp/c2.npy" && says err 'i32; convert it with .astype\(np\.float32\)'
run 1 matmul "$tmp/c16.npy" "$tmp/c16.npy" -o "$tmp/c2.npy" --type f32 && says err '\.astype\(np\.float32\)'
piped 1 "$tmp/i8.npy" conv - "$tmp/w.npy" -o "$tmp/c2.npy" && says err "standard input: dtype '<i8'"

# On a terminal: an array is refused there, and what is being done is shown on standard error.
if command -v script >/dev/null && script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    TERM=xterm script -qec "'$troupe' matmul '$tmp/a.npy' '$tmp/b.npy' -o -" /dev/null >"$tmp/out" </dev/null
    [ $? -eq 2 ] || fail "an array on a terminal: exit status other than 2"
    says out 'standard output is a terminal'
    TERM=xterm script -qec "'$troupe' matmul '$tmp/a.npy' '$tmp/b.npy' -o '$tmp/c.npy' --device $device \
        >'$tmp/report'" /dev/null >"$tmp/out" </dev/null || fail "a product on a terminal"
    says out 'reading .*a.npy \.\.\.' && says out 'multiplying \.\.\.'
    grep -q 'multiplying' "$tmp/report" && fail "progress on standard output"
fi
run 0 matmul "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/c.npy" --device "$device"
[ -s "$tmp/err" ] && fail "progress where standard error is no terminal"

finish
