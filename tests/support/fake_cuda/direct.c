/* See direct.h. One call of a kernel runs all blocks of a launch in sequence, with one thread each.
 */
#include "support/fake_cuda/direct.h"
#include "support/fake_cuda/fake.h"

#include "actors/dnn/graph/train_op.h"

#include <string.h>

#define TRP__KERNEL  static
#define TRP__SHARED  /* each block has one thread */
#define TRP__SYNC()  ((void)0)
#define TRP__THREAD  0
#define TRP__THREADS 1
#define TRP__BLOCK   0
#define TRP__BLOCKS  1
#include "actors/dnn/reference/kernels.h"

typedef struct row {
    uint8_t first, last, port;
    void (*run)(trp__direct d);
} row;

enum {
#define NUMBER(name, ...) NUMBER_##name,
    FAKE_DIRECT_KERNELS(NUMBER) ROWS
#undef NUMBER
};

static const row rows[ROWS] = {
#define ROW(name, kind, last, ...)                                                                 \
    {TRP_DNN_##kind, TRP_DNN_##last, FAKE_FIRST(__VA_ARGS__, 0), trp_direct_##name},
    FAKE_DIRECT_KERNELS(ROW)
#undef ROW
};

static bool is_for(const row *r, uint8_t kind)
{
    return kind >= r->first && kind <= r->last;
}

size_t fake_direct_bytes(const trp__dnn_tensor *t)
{
    return (size_t)trp__dnn_extent(t) * (trp_dtype_bits((trp_dtype)t->type) / 8);
}

void fake_direct_run(trp__direct *d)
{
    const trp__dnn_tensor *tensor[TRP__DNN_PORTS] = {0};
    for (int i = 0; i < TRP__DNN_PORTS; i++)
        tensor[i] = d->used[i] ? &d->tensor[i] : NULL;
    if (d->node.kind >= TRP_DNN_NORM_TRAINING && d->node.kind <= TRP_DNN_NORM_BACKWARD)
        d->tensor[TRP__DIRECT_STATISTICS] = trp__dnn_statistics_shape(&d->node, tensor);
    if (d->node.kind == TRP_DNN_ATTENTION || d->node.kind == TRP_DNN_ATTENTION_BACKWARD) {
        d->tensor[TRP__DIRECT_STATISTICS] = d->tensor[TRP__DNN_ATTENTION_Q];
        d->tensor[TRP__DIRECT_STATISTICS].dim[3] = 1;
    }
    trp__direct_train_shape(d);
    for (int i = 0; i < ROWS; i++) {
        d->count = trp__direct_count(d, rows[i].port);
        if (is_for(&rows[i], d->node.kind) && d->count > 0)
            rows[i].run(*d);
    }
}

/* Reaches each tensor; false: the stream has faulted. */
static bool reach_all(trp__direct *d, fake_pin pin[])
{
    const trp__dnn_kind *kind = trp__dnn_kind_of(d->node.kind);
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        size_t bytes = d->used[i] && d->at[i] ? fake_direct_bytes(&d->tensor[i]) : 0;
        uint64_t at = (uintptr_t)d->at[i];
        if (bytes == 0)
            continue;
        if (at % (trp_dtype_bits((trp_dtype)d->tensor[i].type) / 8) != 0) {
            fake_fault(FAKE_ERROR_MISALIGNED_ADDRESS);
            return false;
        }
        d->at[i] = fake_cuda_reach(&pin[i], at, bytes, kind->port[i].written);
        if (!d->at[i])
            return false;
    }
    return true;
}

/* Reaches scratch memory. */
static bool reach_scratch(trp__direct *d, fake_pin *pin)
{
    const trp__dnn_tensor *tensor[TRP__DNN_PORTS];
    if (!trp__dnn_is_training(d->node.kind) || !trp__train_op_of(d->node.kind)->device_bytes)
        return true;
    for (int i = 0; i < TRP__DNN_PORTS; i++)
        tensor[i] = d->used[i] ? &d->tensor[i] : NULL;
    const uint64_t bytes = trp__train_op_of(d->node.kind)->device_bytes(&d->node, tensor);
    if (bytes > 0)
        d->scratch = fake_cuda_reach(pin, (uintptr_t)d->scratch, bytes, true);
    return bytes == 0 || d->scratch;
}

/* Reaches the numbers of a sample. */
static bool reach_sample(trp__direct *d, fake_pin *pin)
{
    if (!d->sample)
        return true;
    d->sample =
        fake_cuda_reach(pin, (uintptr_t)d->sample, (size_t)d->samples * sizeof *d->sample, false);
    return d->sample != NULL;
}

/* Refuses a kernel for another kind of node, or another number of elements: it would access other
 * memory. */
static void launch(int number, const uint64_t *parameter)
{
    const row *r = &rows[number];
    fake_pin pin[TRP__DNN_PORTS + 2] = {{0}};
    trp__direct d;
    memcpy(&d, parameter, sizeof d);
    if (!is_for(r, d.node.kind) || (!d.sample && d.count != trp__direct_count(&d, r->port))) {
        fake_fault(FAKE_ERROR_LAUNCH_FAILED);
        return;
    }
    if (reach_all(&d, pin) && reach_scratch(&d, &pin[TRP__DNN_PORTS]) &&
        reach_sample(&d, &pin[TRP__DNN_PORTS + 1]))
        r->run(d);
    for (size_t i = 0; i < sizeof pin / sizeof *pin; i++) {
        if (pin[i].at)
            fake_cuda_let_go(&pin[i]);
    }
}

#define LAUNCH(name, ...)                                                                          \
    void fake_direct_##name(const uint64_t *parameter)                                             \
    {                                                                                              \
        launch(NUMBER_##name, parameter);                                                          \
    }
FAKE_DIRECT_KERNELS(LAUNCH)
