/* The library's execution plans of a part of a graph, the best by its heuristics first. An engine
 * may contain a product of cuBLASLt instead (product_cublaslt.h). */
#ifndef TRP_ACTORS_DNN_ENGINES_ENGINES_H
#define TRP_ACTORS_DNN_ENGINES_ENGINES_H

#include "actors/dnn/cudnn/descriptors.h"

/* A plan of a part and its name: */
typedef struct trp__dnn_engine {
    trp__cudnn_descriptor plan;
    struct trp__dnn_product_plan *product; /* instead of `plan` */
    uint64_t workspace;                    /* required bytes */
    char name[TRP_DNN_ENGINE_SIZE];
} trp__dnn_engine;

/* Creates up to `room` plans that satisfy the graph's head and sets *count. Returns
 * TRP_E_UNSUPPORTED with the library's reason if there is none. Takes some milliseconds, or much
 * longer if kernels are compiled. */
trp_status trp__dnn_engines(const trp__dnn_planner *planner, const trp__dnn_part *part,
                            uint32_t room, trp__dnn_engine out[], uint32_t *count,
                            trp_error *error);

/* Creates the engine of that name, which need not be proven. */
trp_status trp__dnn_engine_named(const trp__dnn_planner *planner, const trp__dnn_part *part,
                                 const char *name, trp__dnn_engine *out, trp_error *error);

void trp__dnn_engine_drop(const trp__cudnn *lib, trp__dnn_engine *engine);

/* Writes the text from which the library recreates the plan in any process with the same version
 * and device; the caller frees `*out`. */
trp_status trp__dnn_engine_write(const trp__cudnn *lib, const trp__dnn_engine *engine, char **out,
                                 size_t *bytes, trp_error *error);

/* Recreates plan and workspace from the text. */
trp_status trp__dnn_engine_read(const trp__dnn_planner *planner, const char *text, size_t bytes,
                                trp__dnn_engine *out, trp_error *error);

#endif
