/* Renders an epilogue tree as source text for CUTLASS: a type of visitors, and a function that
 * fills their arguments on the device. The text is a pure function of the tree's canonical form,
 * which precedes it as a comment: "tree" and its bytes as hexadecimal digits.
 *
 * The text stands behind the includes of a kernel's template, before the first use of TRP_FUSION.
 * It expects
 *
 *     trp_cutlass_args   of templates/abi.h, whose `slot` holds the words of
 *                        trp__tree_fill_words()
 *     trp_tile           sm_90: cute::Shape<m, n, k> of a block's tile
 *     trp_thread_map     sm_80: which elements of D a thread has, as OutputTileThreadLayout
 *
 * and gives
 *
 *     trp_epilogue_tree        sm_90: what a collective epilogue takes as its FusionCallbacks;
 *                              sm_80: what EpilogueWithVisitorCallbacks takes, with D's store
 *     trp_tree_c, trp_tree_d   the types of C and D, void if the tree does not read C
 *     trp_epilogue_arguments(trp_cutlass_args const &)   a trp_epilogue_tree::Arguments
 *     TRP_FUSION, TRP_FUSION_ARGS(args)                  the same, by the names of a template
 *
 * Reductions are atomic operations on memory, so the host sets it to trp__tree_neutral_bits()
 * before each launch. */
#ifndef TRP_ACTORS_CUTLASS_EPILOGUE_RENDER_H
#define TRP_ACTORS_CUTLASS_EPILOGUE_RENDER_H

#include "actors/cutlass/epilogue/tree.h"
#include "base/text.h"

typedef enum trp__tree_target {
    TRP__TREE_SM80, /* CUTLASS 2.x kernels: sm_80, 86, 89 */
    TRP__TREE_SM90, /* 3.x with TMA and warp specialisation */
    /* The same for groups: a vector has an array with one address per group instead of an address
     * and a stride. */
    TRP__TREE_SM90_GROUPED,
} trp__tree_target;

enum { TRP__TREE_WORDS_MAX = 48 }; /* slot words of trp_cutlass_args */

/* Appends the text. `alignment` is that of auxiliary matrices in bytes: of their addresses, leading
 * dimensions and strides, and of the lines of D; a power of two. (On sm_80 the thread map
 * determines it.) Returns TRP_E_UNSUPPORTED with the reason for trees that such kernels cannot
 * compute. */
trp_status trp__tree_render(const trp__tree *tree, trp__tree_target target, uint32_t alignment,
                            trp__text *out, trp_error *error);

/* Checks whether such kernels can compute the tree: TRP_E_UNSUPPORTED with the reason if not. */
trp_status trp__tree_renders(const trp__tree *tree, trp__tree_target target, trp_error *error);

/* Returns CUTLASS's name of a type; "void" for TRP_DTYPE_NONE. */
const char *trp__tree_element(uint32_t type);

/* The contents of a slot after its buffer has an address. */
typedef struct trp__tree_value {
    uint64_t address; /* 0: a scalar by value */
    trp__tree_place place;
} trp__tree_value;

/* Returns the index of a slot's first word, or for tree->slots the total number of words. A vector
 * has an address and a stride, a matrix an address, a leading dimension and a stride, a scalar
 * without an address 0 and the bits of its f64. C and D have no words: they are separate
 * arguments. */
uint32_t trp__tree_word(const trp__tree *tree, uint32_t slot);

/* Writes the words of all slots; ignores C and D. */
void trp__tree_fill_words(const trp__tree *tree, const trp__tree_value *value,
                          uint64_t words[TRP__TREE_WORDS_MAX]);

/* Returns the bits of a reduction's neutral value, in the low 32 bits if the compute type is
 * f32. */
uint64_t trp__tree_neutral_bits(const trp__tree *tree, const trp__tree_node *node);

#endif
