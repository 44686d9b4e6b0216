/* The library's ways to run a part of a graph: execution plans, the best by its heuristics first.
 * What holds one may hold a product of cuBLASLt's in its place (product_cublaslt.h). */
#ifndef TRP_ACTORS_DNN_ENGINES_ENGINES_H
#define TRP_ACTORS_DNN_ENGINES_ENGINES_H

#include "actors/dnn/cudnn/descriptors.h"

/* A plan of a part, and what it is called: "eng45_k2=3_k13=1". */
typedef struct trp__dnn_engine {
    trp__cudnn_descriptor plan;
    struct trp__dnn_product_plan *product; /* in its place */
    uint64_t workspace;                    /* bytes that it needs */
    char name[TRP_DNN_ENGINE_SIZE];
} trp__dnn_engine;

/* Makes up to `room` plans that keep to what the graph's head demands, and says how many in *count.
 * TRP_E_UNSUPPORTED, with the library's reason, if there is none. Some milliseconds; where kernels
 * are compiled much longer. */
trp_status trp__dnn_engines(const trp__dnn_planner *planner, const trp__dnn_part *part,
                            uint32_t room, trp__dnn_engine out[], uint32_t *count,
                            trp_error *error);

/* The one of a name alone, which need not be proven. */
trp_status trp__dnn_engine_named(const trp__dnn_planner *planner, const trp__dnn_part *part,
                                 const char *name, trp__dnn_engine *out, trp_error *error);

void trp__dnn_engine_drop(const trp__cudnn *lib, trp__dnn_engine *engine);

/* The text that the library makes the same plan from again, in any process with the same version
 * and device; `*out` is the caller's to free. */
trp_status trp__dnn_engine_write(const trp__cudnn *lib, const trp__dnn_engine *engine, char **out,
                                 size_t *bytes, trp_error *error);

/* Fills in plan and workspace. */
trp_status trp__dnn_engine_read(const trp__dnn_planner *planner, const char *text, size_t bytes,
                                trp__dnn_engine *out, trp_error *error);

#endif
