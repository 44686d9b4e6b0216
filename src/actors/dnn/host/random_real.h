/* RANDOM, see nodes_real.h. */

static void NAME(run_random)(const trp__dnn_host_node *x)
{
    const uint64_t *seed = x->at[TRP__DNN_RANDOM_SEED], *before = x->at[TRP__DNN_RANDOM_OFFSET];
    const int64_t count = trp__dnn_elements(x->tensor[TRP__DNN_RANDOM_Y]);
    const int each = trp__dnn_random_each(x->n);
    T *out = x->at[TRP__DNN_RANDOM_Y];
    for (int64_t i = 0; i < count; i += each) {
        uint32_t word[TRP__PHILOX_WORDS];
        trp__philox_block(*seed, before ? *before : 0, (uint64_t)(i / each), word);
        for (int k = 0; k < each && i + k < count; k++)
            out[i + k] = (T)trp__dnn_random_value(x->n, word, k);
    }
}
