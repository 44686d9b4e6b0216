/* A program of map.h as a step of a plan. */
#ifndef TRP_ACTORS_DNN_KERNELS_MAP_STEP_H
#define TRP_ACTORS_DNN_KERNELS_MAP_STEP_H

#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/map/fused.h"
#include "actors/dnn/kernels/map/program.h"

/* A step: the program, and how its elements are shared out over launches. */
typedef struct trp__map_step {
    trp__map map;
    uint8_t tensor[TRP__MAP_OPERANDS];
    uint8_t value_of[TRP__MAP_NUMBERS];
    int numbers;
    bool wide;
    uint32_t each;             /* elements of a thread */
    int64_t blocks;            /* blocks of a launch, at most; 0: as many as the elements need */
    trp__kernel_module module; /* of `kernel` */
    trp__kernel kernel;        /* the interpreter, or a ready kernel */
    trp__fused_entry *fused;   /* the program's own kernel; NULL: not looked up yet */
    char *source;              /* the source of that kernel, stored behind this struct */
    uint32_t deep; /* packs of `each` elements that a thread of that kernel has at a time */
    /* The host walks these dimensions, and pieces of the outermost dimension of a launch. */
    int outer_rank;
    int64_t outer[TRP__MAP_DIMS];
    int64_t outer_stride[TRP__MAP_OPERANDS][TRP__MAP_DIMS];
    int64_t last, piece; /* elements along the outermost dimension of a launch */
    int64_t inner;       /* elements of the space for one of these */
} trp__map_step;

/* Returns the elements of a thread. */
static inline int trp__map_width(bool wide)
{
    return wide ? TRP__MAP_WIDTH_F64 : TRP__MAP_WIDTH;
}

/* Puts the dimensions of the space in the order of memory, and shares the elements out over
 * launches and threads. */
void trp__map_lay_out(trp__map_program *p, trp__map_step *s);

/* Copies a program, whose elements have been laid out, into a step. */
void trp__map_keep(const trp__map_program *p, trp__map_step *s);

/* launch() of the families of such steps. */
trp_status trp__map_launch(void *state, const trp__kernel_launch *l, trp_error *error);

#endif
