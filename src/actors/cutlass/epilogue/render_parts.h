/* Shared by the parts of rendering: the text under construction. */
#ifndef TRP_ACTORS_CUTLASS_EPILOGUE_RENDER_PARTS_H
#define TRP_ACTORS_CUTLASS_EPILOGUE_RENDER_PARTS_H

#include "actors/cutlass/epilogue/render.h"
#include "base/text.h"

typedef struct trp__tree_render_state {
    const trp__tree *tree;
    trp__tree_target target;
    uint32_t alignment;
    trp__text *out;
    bool grouped;
    bool nested; /* every value is used once, so the visitors nest; else they are listed */
    uint8_t uses[TRP__TREE_NODES_MAX]; /* uses by operations and as D, without stores */
} trp__tree_render_state;

#define ADD(r, ...) trp__text_add((r)->out, __VA_ARGS__)

/* Adds the types of all visitors, op0, op1, ..., and of the tree; stores whether they nest. */
void trp__render_visitors(trp__tree_render_state *r);

/* Adds the function that fills the tree's arguments on the device. */
void trp__render_arguments(const trp__tree_render_state *r);

#endif
