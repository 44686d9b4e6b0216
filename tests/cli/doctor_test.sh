#!/bin/sh
# troupe doctor: the report, and the isolation test on every device of this machine.
. "$(dirname "$0")/lib.sh"

run 0 doctor --quick && says out '^devices' && says out '\(host\)' && says out 'troupe-worker' &&
    says out ' openblas ' && says out ' onednn ' && says out ' cuda '
# Every library that the worker can use, there or not, and what is lost without it.
for library in cuda cublas cublaslt cudnn cufft nvrtc nvjitlink openblas onednn cutlass zlib; do
    says out "^ +[^ ]+ +$library +[^ ]"
done
hidden() {
    if ! env "TROUPE_$1=/nowhere/lib.so" "$troupe" doctor --quick >"$tmp/out" 2>"$tmp/err"; then
        [ "$1" = OPENBLAS ] || fail "doctor without $1"
    fi
    says out "^ +[^ ]+ +$2 +missing +.*/nowhere/lib.so" && says out "without it: $3"
}
hidden CUDA_DRIVER cuda 'no GPU is used'
hidden CUBLAS cublas 'GPUs have no blas actor'
hidden CUBLASLT cublaslt 'GPUs have no matmul actor'
hidden CUDNN cudnn 'GPUs have no dnn actor'
hidden CUFFT cufft 'GPUs have no fft actor'
hidden NVRTC nvrtc 'nothing is compiled'
hidden NVJITLINK nvjitlink 'the jit actor links nothing'
hidden OPENBLAS openblas 'the host has no blas'
hidden ONEDNN onednn '.* take longer'
hidden ZLIB zlib 'compressed .npz files are not read'

# A worker that reports an old cuDNN: it loads, and lacks something.
for pair in 9.15.1=outdated 9.16.0=fine 10.0.0=fine 9.5.0=outdated 8.9.7=outdated; do
    printf '#!/bin/sh\nprintf "cudnn\\tok\\t%s\\t/a/libcudnn.so.9\\n"\n' "${pair%=*}" >"$tmp/worker"
    chmod +x "$tmp/worker"
    TROUPE_WORKER=$tmp/worker "$troupe" doctor --quick >"$tmp/out" 2>"$tmp/err" || fail "doctor with a worker of its own"
    if [ "${pair#*=}" = outdated ]; then
        says out 'cudnn +'"${pair%=*}" && says out 'outdated: it has no attention before 9.16'
    else
        grep -q outdated "$tmp/out" && fail "cuDNN ${pair%=*} is called outdated"
    fi
done

run 0 doctor && says out '^isolation' && says out 'host 0 +works' && says out 'devices that work: [1-9]'
[ -s "$tmp/err" ] && fail "doctor wrote to standard error"

TROUPE_WORKER=$tmp/nothere "$troupe" doctor >"$tmp/out" 2>"$tmp/err"
[ $? -eq 1 ] || fail "a missing worker: exit status other than 1"
says out 'troupe-worker +error +.*nothere'

# A worker that is something else.
printf '#!/bin/sh\nexit 7\n' >"$tmp/impostor"
chmod +x "$tmp/impostor"
TROUPE_WORKER=$tmp/impostor "$troupe" doctor >"$tmp/out" 2>"$tmp/err"
[ $? -eq 1 ] || fail "an impostor of a worker: exit status other than 1"
says err 'exited with 7'
says out 'host 0 +does not work'

finish
