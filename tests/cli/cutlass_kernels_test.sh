#!/bin/sh
# troupe cutlass kernels: the catalogue, what a problem would get and why not, and sources.
. "$(dirname "$0")/lib.sh"

run 0 cutlass kernels && says out '^s90_half_128x256x64_2x1 .*sm_90a' && says out '^s80_f32_128x128x8 .*simt'
run 0 cutlass kernels --help && says out '^usage: troupe cutlass kernels'

run 0 cutlass kernels --explain -m 4096 -n 4096 -k 4096
says out 'us  s90_half_'
says out 's80_f64_64x64x16: does not multiply bf16 by bf16'
run 0 cutlass kernels --explain --align 4
says out 's90_half_128x256x64_2x1: needs A.s lines at multiples of 16 bytes, got 4'
says out 'us  s80_half_128x128x32_a2'
run 0 cutlass kernels --explain --capability 80 && says out 'is for compute capability 9.0, got 8.0'
run 0 cutlass kernels --explain --type f32 && says out 'us  s80_f32_' && says out 'which compute has to allow'
run 0 cutlass kernels --explain --type f32 --tf32 && says out 'us  s90_tf32_'
run 0 cutlass kernels --explain --type i8 --order-a column && says out 'us  s80_i8_simt_'
run 0 cutlass kernels --explain --type f8e4m3 --fast && says out 'us  s90_fp8_128x256x128_2x1_fast'
run 0 cutlass kernels --explain --type f8e4m3 && says out 's90_fp8_128x256x128_2x1_fast: less exact than asked for'
run 0 cutlass kernels --explain --type f8e4m3 --factors-a 128 --factors-b 128x128 && says out 'us  s90_fp8_blocks_'
run 0 cutlass kernels --explain --type f4e2m1 --factors-a 16 --capability 100 && says out 'us  s100_nvfp4_'
run 0 cutlass kernels --explain --type f8e4m3 --factors-a 32 --capability 120 && says out 'us  s120_mxfp8_'
run 0 cutlass kernels --explain --type f16 --type-b i8 --group 128 --zeros && says out 'us  s90_mixed_'
run 2 cutlass kernels --explain --type f16 --type-b i8 --zeros && says err 'group: expected 1 or more with --zeros'
run 1 cutlass kernels --explain -m 2147483648 && says out 'm: expected 1 to 2147483647, got 2147483648'

run 0 cutlass kernels --source s80_half_128x128x32_a8 -e 'relu(acc + bias[col]) + c'
says out '^/\* --gpu-architecture=sm_90 \*/' && says out '^#define TRP_A cutlass::bfloat16_t'
says out 'fn_relu' && says out '^#include "gemm_sm80.cuh"'
run 0 cutlass kernels --source s90_i8_128x128x128_1x1 --type i8
says out 'sm_90a' && says out '^#define TRP_SCALAR int32_t'
run 0 cutlass kernels --source s90_conv_half_128x128x64_1x1 --type bf16 --capability 90
says out '^#include "conv_sm90.cuh"'
run 1 cutlass kernels --source s80_half_128x128x32_a8 --type f64 && says err 'does not multiply f64 by f64'
run 2 cutlass kernels --source nonsense && says err "no kernel is called 'nonsense'"
run 2 cutlass kernels --source s80_half_128x128x32_a8 -e 'relu(acc' && says err '--epilogue: column'
run 2 cutlass kernels --align 3 && says err '--align: expected 1, 2, 4, 8 or 16, got 3'
run 2 cutlass kernels --capability 9000 && says err '--capability: expected 50 to 200'
run 2 cutlass kernels --explain --source x && says err 'contradict'

finish
