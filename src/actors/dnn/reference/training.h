/* Kernels of training nodes, a part of kernels.h: plain ones in f64, the reference for all other
 * implementations. <troupe/dnn.h> documents each kind.
 *
 * TRP__TRAIN_KERNELS lists them in the order in which a node launches them: the name after
 * "trp_direct_"; the range of kinds; the items that have a thread or a block each, a port or one of
 * those below; and whether those are blocks. Each starts when the previous one has ended, so that
 * it finds its results in d.scratch. */
#ifndef TRP_ACTORS_DNN_REFERENCE_TRAINING_H
#define TRP_ACTORS_DNN_REFERENCE_TRAINING_H

#define TRP__TRAIN_KERNELS(X)                                                                      \
    X(gather, GATHER, GATHER, TRP__GATHER_SLICES, false)                                           \
    X(scatter_sort, SCATTER_ADD, SCATTER_ADD, TRP__DIRECT_ONE, true)                               \
    X(scatter_sum, SCATTER_ADD, SCATTER_ADD, TRP__GATHER_WHOLE, false)                             \
    X(cross_entropy_count, CROSS_ENTROPY, CROSS_ENTROPY, TRP__DIRECT_ONE, true)                    \
    X(cross_entropy, CROSS_ENTROPY, CROSS_ENTROPY, TRP__DIRECT_STATISTICS, true)                   \
    X(cross_entropy_total, CROSS_ENTROPY, CROSS_ENTROPY, TRP__DIRECT_ONE, true)                    \
    X(loss, LOSS, LOSS, TRP__DIRECT_PARTS, true)                                                   \
    X(loss_total, LOSS, LOSS, TRP__DIRECT_ONE, true)                                               \
    X(rotary, ROTARY, ROTARY_BACKWARD, TRP__DIRECT_STATISTICS, false)                              \
    X(arg, ARG, ARG, TRP__DIRECT_STATISTICS, true)                                                 \
    X(top_k, TOP_K, TOP_K, TRP__DIRECT_SLOTS, true)                                                \
    X(sample, SAMPLE, SAMPLE, TRP__DIRECT_SLOTS, true)                                             \
    X(optimizer_norm, OPTIMIZER, OPTIMIZER, TRP__DIRECT_PARTS, true)                               \
    X(optimizer_total, OPTIMIZER, OPTIMIZER, TRP__DIRECT_ONE, true)                                \
    X(optimizer, OPTIMIZER, OPTIMIZER, TRP__OPT_W, false)

#endif
