/* Images and the windows that move over them, for the references of convolutions and pooling. */
#ifndef TRP_CLI_COMMANDS_LAYERS_WINDOW_H
#define TRP_CLI_COMMANDS_LAYERS_WINDOW_H

#include "layer.h"

enum { CHECK_DIMS = TRP_DNN_SPATIAL_MAX };

/* An array of n x c x three sizes; missing sizes are 1. */
typedef struct check_grid {
    double *value; /* owned; NULL: none */
    int64_t n, c, size[CHECK_DIMS];
} check_grid;

/* Makes a grid of a tensor's dimensions, without values. */
check_grid check_grid_of(const tensor *t);

/* Fills in the tensor's values on the device; false: no memory, reported. */
bool check_grid_fill(check_grid *grid, const tensor *t);

bool check_grid_is_empty(const check_grid *grid);

uint64_t check_grid_index(const check_grid *g, int64_t n, int64_t c, const int64_t *place);

/* Returns the position of an element, and its n and c. */
void check_grid_place(const check_grid *g, uint64_t index, int64_t *n, int64_t *c, int64_t *place);

/* Advances to the next position; false at the end. */
bool check_next(const int64_t *size, int64_t *place);

/* How a window moves over `in`; its places are `out`. */
typedef struct check_window {
    int64_t in[CHECK_DIMS], out[CHECK_DIMS];
    int64_t pad[CHECK_DIMS], stride[CHECK_DIMS], dilation[CHECK_DIMS];
} check_window;

/* `dilation` may be NULL: 1. */
check_window check_window_of(const check_grid *in, const check_grid *out, uint32_t dims,
                             const int64_t *pad, const int64_t *stride, const int64_t *dilation);

/* Returns the input position under a tap of a window; false in the padding. */
bool check_under(const check_window *w, const int64_t *out, const int64_t *tap, int64_t *in);

/* Returns the window whose tap covers a position; false: there is none. */
bool check_over(const check_window *w, const int64_t *in, const int64_t *tap, int64_t *out);

#endif
