/* Compiles nodes of a graph to a program of map.h. */
#ifndef TRP_ACTORS_DNN_KERNELS_MAP_PROGRAM_H
#define TRP_ACTORS_DNN_KERNELS_MAP_PROGRAM_H

#include "actors/dnn/kernels/launch/space.h"
#include "actors/dnn/kernels/map/map.h"
#include "actors/dnn/lower/part.h"

enum { TRP__MAP_NO_SLOT = 0xff };

/* A program while it is compiled. */
typedef struct trp__map_program {
    const trp__dnn_graph *graph;
    uint32_t first, count;
    uint8_t place[TRP__DNN_LOWERED_TENSORS]; /* trp__dnn_place */
    const trp__dnn_tensor *shape;            /* the shape of the iteration space */
    bool wide;                               /* computes in f64 */
    bool full;                               /* something does not fit */

    trp__map map;
    trp__space space;
    uint8_t tensor[TRP__MAP_OPERANDS];  /* the tensor of each operand */
    uint8_t value_of[TRP__MAP_NUMBERS]; /* the tensor whose value a number is; else NO_PORT */
    int numbers;
    int stored;                                  /* the first operand that is written; -1: none */
    uint8_t slot[TRP__DNN_LOWERED_TENSORS];      /* the slot of a tensor's elements, or
                                                  * TRP__MAP_NO_SLOT */
    uint32_t last_use[TRP__DNN_LOWERED_TENSORS]; /* the last node that reads it */
    bool taken[TRP__MAP_SLOTS];
    int slots;
} trp__map_program;

bool trp__map_is_element_wise(const trp__dnn_node *n);

uint8_t trp__map_output_port(const trp__dnn_node *n);

/* Tells whether a node can be part of a program over `shape`. */
bool trp__map_fits(const trp__dnn_graph *g, const trp__dnn_node *n, const trp__dnn_tensor *shape);

/* Compiles `count` nodes, all of which fit. False: the program is too large for the parameter of a
 * kernel, or stores nothing. */
bool trp__map_compile(trp__map_program *p, const trp__dnn_graph *g, uint32_t first, uint32_t count);

#endif
