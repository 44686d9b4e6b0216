/* Element-wise programs (map.h) that users run often, with precompiled kernels: gated units and
 * random numbers. One list of instructions makes both the kernel (ready.cuh) and the instructions
 * that a program is compared with (ready.c). A program is one of these where all operands are
 * LINEAR, aligned for vectors and, but for the one that numbers elements, of one type. The
 * arithmetic is that of the interpreter, and so are the bits. Host and device share this file.
 *
 * A program is a macro of LOAD(to, operand), COMPUTE(op, to, a, b, c, parameter), RANDOM(to,
 * operand, seed, offset, parameter, mode) and STORE(from, operand). A kernel does all loads first.
 * This is right even if an output lies in the memory of an input, since a thread only reads
 * elements that no other thread writes. */
#ifndef TRP_ACTORS_DNN_KERNELS_MAP_READY_H
#define TRP_ACTORS_DNN_KERNELS_MAP_READY_H

#include "actors/dnn/kernels/map/map.h"

#include <troupe/dnn.h>

enum {
    TRP__READY_SLOTS = 3,
    TRP__READY_OPERANDS = 5,
    TRP__READY_CODES = 9,
    TRP__READY_DRAW_THREADS = 256,
    TRP__READY_DRAW_BLOCKS = 5, /* of a multiprocessor, all resident: they share the elements */
};

/* gate, up -> y. */
#define TRP__READY_UNIT(activation, LOAD, COMPUTE, RANDOM, STORE)                                  \
    LOAD(0, 0)                                                                                     \
    COMPUTE(activation, 0, 0, 0, 0, 0)                                                             \
    LOAD(1, 1)                                                                                     \
    COMPUTE(TRP_DNN_MUL, 0, 0, 1, 0, 0)                                                            \
    STORE(0, 2)

/* gate, dy, up -> dup, dgate. */
#define TRP__READY_UNIT_BACK(activation, LOAD, COMPUTE, RANDOM, STORE)                             \
    LOAD(0, 0)                                                                                     \
    COMPUTE(activation, 1, 0, 0, 0, 0)                                                             \
    LOAD(2, 1)                                                                                     \
    COMPUTE(TRP_DNN_MUL, 1, 2, 1, 2, 0)                                                            \
    STORE(1, 2)                                                                                    \
    LOAD(1, 3)                                                                                     \
    COMPUTE(TRP_DNN_MUL, 1, 2, 1, 2, 0)                                                            \
    COMPUTE(TRP__MAP_SLOPE + (activation), 0, 0, 1, 0, 3)                                          \
    STORE(0, 4)

/* Seed and offset by value -> y. */
#define TRP__READY_DRAW(mode, LOAD, COMPUTE, RANDOM, STORE)                                        \
    RANDOM(0, 0, TRP__MAP_NUMBER, TRP__MAP_NUMBER + 1, 2, mode)                                    \
    STORE(0, 1)

/* One row per program: name, instructions, their argument. Each list is a module. */
#define TRP__READY_UNITS(X)                                                                        \
    X(glu_swish, TRP__READY_UNIT, TRP_DNN_SWISH)                                                   \
    X(glu_swish_back, TRP__READY_UNIT_BACK, TRP_DNN_SWISH)                                         \
    X(glu_gelu, TRP__READY_UNIT, TRP_DNN_GELU)                                                     \
    X(glu_gelu_back, TRP__READY_UNIT_BACK, TRP_DNN_GELU)                                           \
    X(glu_gelu_tanh, TRP__READY_UNIT, TRP_DNN_GELU_TANH)                                           \
    X(glu_gelu_tanh_back, TRP__READY_UNIT_BACK, TRP_DNN_GELU_TANH)
#define TRP__READY_DRAWS(X)                                                                        \
    X(random_uniform, TRP__READY_DRAW, TRP_DNN_UNIFORM | TRP__MAP_RANDOM_F32)                      \
    X(random_normal, TRP__READY_DRAW, TRP_DNN_NORMAL)                                              \
    X(random_bernoulli, TRP__READY_DRAW, TRP_DNN_BERNOULLI)

/* The types of operands. */
#define TRP__READY_TYPES(X)                                                                        \
    X(f32, TRP_F32)                                                                                \
    X(bf16, TRP_BF16)                                                                              \
    X(f16, TRP_F16)

#endif
