/* Finds the rows of kernels/common/rows.h in tensors. */
#ifndef TRP_ACTORS_DNN_KERNELS_LAUNCH_ROW_SPACES_H
#define TRP_ACTORS_DNN_KERNELS_LAUNCH_ROW_SPACES_H

#include "actors/dnn/kernels/common/rows.h"
#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/launch/space.h"

/* The dimensions that number the rows, and those along which rows lie. */
typedef struct trp__rows {
    trp__space kept, reduced;
} trp__rows;

/* Begins with a shape, whose rows lie along the dimensions in which `group` has 1. */
void trp__rows_begin(trp__rows *r, const trp__dnn_tensor *shape, const trp__dnn_tensor *group);

/* Adds an operand whose dimensions are those of the shape, or 1. */
void trp__rows_add(trp__rows *r, const trp__dnn_tensor *operand);

/* Sorts the dimensions by the strides of an operand and merges those that can be. */
void trp__rows_finish(trp__rows *r, int by);

/* Fills what a kernel gets; `kept` is its dimensions from number `from` on. */
void trp__rows_space_of(const trp__space *kept, int from, trp__rows_space *out);
void trp__rows_operand_of(const trp__rows *r, int operand, int from, uint8_t type,
                          trp__rows_operand *out);

/* Tells whether a run of 8 elements may be read by 16 bytes at a time: `kept` without its first
 * `from` dimensions leads to runs that begin at the same element modulo 8 in all of the first
 * `operands`. `ragged`: they do not all begin at a multiple of it. */
bool trp__rows_are_runs(const trp__space *kept, int from, int operands, bool *ragged);

/* Returns the runs of 8 elements that each thread holds of a row of n in registers, 1, 2 or 4 and
 * at most `runs`, and sets its threads: a power of two up to 32, or a block of a multiple of 32. 0:
 * more than `threads_max` would be needed. */
int trp__rows_share(int64_t n, int runs, int threads_max, int32_t *threads);

/* Returns the type that all operands have and that kernels of kernels/common/row_packs.cuh are
 * named by; NULL: none. */
const char *trp__row_packs_type(const trp__rows_operand *operand, int count);

/* Ways to hold a row in packs of 16 bytes: packs of a thread, and threads at most. Ways of up to a
 * warp come first. */
typedef struct trp__row_packs_way {
    int packs, threads;
} trp__row_packs_way;
typedef trp__row_packs_way trp__row_packs_ways[4];

/* Returns the packs of the first way that a row of n elements fits, and sets its threads: a power
 * of two up to 32, or a block of a multiple of 32. 0: the row fits no way. */
int trp__row_packs_share(const trp__row_packs_ways ways, int64_t n, uint8_t type, int32_t *threads);

/* Rows as slices of the blocks of a cluster. */
typedef struct trp__slices {
    uint32_t cluster; /* blocks */
    uint32_t threads; /* of a block */
    uint32_t shared;  /* bytes of its dynamic shared memory */
    int64_t each;     /* units of a slice */
    int32_t room;     /* tiles of it that a block has room for */
    int32_t most;     /* tiles that would fit */
} trp__slices;

/* Shares out rows of so many units to blocks that hold them: `most` blocks of a processor if a
 * cluster of such blocks holds a row, else half as many, down to `least`. A single block of a
 * processor need only hold a fifth of the row's share; the rest is read again. `loads`: units of a
 * thread in a tile. False: the blocks would be too few for the device, or do not hold the row. */
bool trp__rows_slices(const trp__kernel_modules *modules, int64_t rows, int64_t units, int loads,
                      uint32_t most, uint32_t least, trp__slices *out);

/* Float types that the kernels of rows take. */
bool trp__rows_takes_type(uint8_t type);

#endif
