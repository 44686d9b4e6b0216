/* Runs both BLOCK_SCALE_..., see nodes_real.h. */

/* Lines along the axis; elements of `inner` lines interleave. */
typedef struct NAME(lines) {
    int64_t outer, size, inner, block, blocks;
} NAME(lines);

static NAME(lines) NAME(lines_of)(const trp__dnn_host_node *x)
{
    const trp__dnn_tensor *t = x->tensor[TRP__DNN_BLOCKS_X];
    const int axis = x->n->mode;
    NAME(lines) l = {.outer = 1, .size = t->dim[axis], .inner = 1, .block = x->n->window[0]};
    for (int i = 0; i < t->rank; i++)
        *(i < axis ? &l.outer : &l.inner) *= i == axis ? 1 : t->dim[i];
    l.blocks = (l.size + l.block - 1) / l.block;
    return l;
}

static void NAME(run_quantize)(const trp__dnn_host_node *x)
{
    const NAME(lines) l = NAME(lines_of)(x);
    const uint8_t narrow = x->tensor[TRP__DNN_BLOCKS_Y]->type;
    const uint8_t type = x->tensor[TRP__DNN_BLOCKS_SCALE]->type;
    T *scale = x->at[TRP__DNN_BLOCKS_SCALE];
    for (int64_t i = 0; i < l.outer * l.blocks * l.inner; i++) {
        const int64_t first = i / l.inner % l.blocks * l.block, end = first + l.block;
        const int64_t line = i / l.inner / l.blocks * l.size * l.inner + i % l.inner;
        const T *in = (const T *)x->at[TRP__DNN_BLOCKS_X] + line;
        T *out = (T *)x->at[TRP__DNN_BLOCKS_Y] + line;
        double amax = 0;
        for (int64_t k = first; k < end && k < l.size; k++)
            amax = trp__blocks_amax(amax, (double)in[k * l.inner]);
        const double factor = trp__blocks_scale(type, narrow, amax);
        scale[i] = (T)factor;
        for (int64_t k = first; k < end && k < l.size; k++)
            out[k * l.inner] = (T)trp__blocks_narrow(narrow, (double)in[k * l.inner], factor);
    }
}

static void NAME(run_dequantize)(const trp__dnn_host_node *x)
{
    const NAME(lines) l = NAME(lines_of)(x);
    const T *in = x->at[TRP__DNN_BLOCKS_X], *scale = x->at[TRP__DNN_BLOCKS_SCALE];
    T *out = x->at[TRP__DNN_BLOCKS_Y];
    for (int64_t i = 0; i < l.outer * l.size; i++) {
        const T *factor = scale + (i / l.size * l.blocks + i % l.size / l.block) * l.inner;
        for (int64_t k = 0; k < l.inner; k++)
            *out++ = (T)trp__blocks_widen(x->n, (double)*in++, (double)factor[k]);
    }
}
