/* Finds rows, as kernels/common/rows.h describes them, in tensors. */
#ifndef TRP_ACTORS_DNN_KERNELS_LAUNCH_ROW_SPACES_H
#define TRP_ACTORS_DNN_KERNELS_LAUNCH_ROW_SPACES_H

#include "actors/dnn/kernels/common/rows.h"
#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/launch/space.h"

/* kept: the dimensions that number the rows; reduced: those along which a row extends. */
typedef struct trp__rows {
    trp__space kept, reduced;
} trp__rows;

/* Begins with a shape. Rows extend along the dimensions in which `group` has 1. */
void trp__rows_begin(trp__rows *r, const trp__dnn_tensor *shape, const trp__dnn_tensor *group);

/* Adds an operand, each of whose dimensions is that of the shape or 1. */
void trp__rows_add(trp__rows *r, const trp__dnn_tensor *operand);

/* Sorts the dimensions by the strides of operand `by`, and merges those without gaps. */
void trp__rows_finish(trp__rows *r, int by);

/* Fill a kernel's arguments with the dimensions of `kept` from number `from` on. */
void trp__rows_space_of(const trp__space *kept, int from, trp__rows_space *out);
void trp__rows_operand_of(const trp__rows *r, int operand, int from, uint8_t type,
                          trp__rows_operand *out);

/* Tells whether runs of 8 elements may be accessed 16 bytes at a time: each row begins at the same
 * element, modulo 8, in all of the first `operands` operands. Leaves out the first `from`
 * dimensions of `kept`. Sets *ragged if some rows do not begin at a multiple of 8. */
bool trp__rows_are_runs(const trp__space *kept, int from, int operands, bool *ragged);

/* Returns how many runs of 8 elements each thread holds of a row of n in registers: 1, 2 or 4, at
 * most `runs`. Sets *threads: a power of two up to 32, or a block of a multiple of 32. 0: the row
 * needs more than `threads_max` threads. */
int trp__rows_share(int64_t n, int runs, int threads_max, int32_t *threads);

/* Returns the name of the type that all operands have, as in names of kernels of
 * kernels/common/row_packs.cuh; NULL: they have no such type. */
const char *trp__row_packs_type(const trp__rows_operand *operand, int count);

/* Ways to hold a row in packs of 16 bytes: packs of a thread, and the most threads. Ways of up to a
 * warp come first. */
typedef struct trp__row_packs_way {
    int packs, threads;
} trp__row_packs_way;
typedef trp__row_packs_way trp__row_packs_ways[4];

/* Returns the packs of the first way that a row of n elements fits, and sets its threads: a power
 * of two up to 32, or a block of a multiple of 32. 0: the row fits no way. */
int trp__row_packs_share(const trp__row_packs_ways ways, int64_t n, uint8_t type, int32_t *threads);

/* Rows cut into slices, one for each block of a cluster. */
typedef struct trp__slices {
    uint32_t cluster; /* blocks */
    uint32_t threads; /* of a block */
    uint32_t shared;  /* bytes of its dynamic shared memory */
    int64_t each;     /* units of a slice */
    int32_t room;     /* tiles of it that shared memory holds */
    int32_t most;     /* tiles that shared memory could hold */
} trp__slices;

/* Cuts `rows` rows of `units` units into slices that blocks hold in shared memory. A multiprocessor
 * has `most` blocks if a cluster of these holds a row, else half as many, and so on down to
 * `least`. A single block per multiprocessor, on a device with clusters, need hold only a fifth of
 * its slice; it reads the rest again. `loads`: units of a thread in a tile. False: the blocks are
 * too few for the device, or do not hold a row. */
bool trp__rows_slices(const trp__kernel_modules *modules, int64_t rows, int64_t units, int loads,
                      uint32_t most, uint32_t least, trp__slices *out);

/* Tells whether the kernels of rows take a type. */
bool trp__rows_takes_type(uint8_t type);

#endif
