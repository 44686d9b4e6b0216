#include "actors/dnn/rnn/host.h"

#include "actors/dnn/host/run.h"
#include "actors/dnn/rnn/rnn.h"
#include "base/error.h"

#include <limits.h>
#include <string.h>
#include <sys/mman.h>

typedef trp__rnn_run rnn_run;

enum { ALIGN = 64 };

static bool is_wide(const trp__rnn *n)
{
    return n->type == TRP_F64;
}

static size_t real_bytes(const trp__rnn *n)
{
    return is_wide(n) ? sizeof(double) : sizeof(float);
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static uint64_t vectors_of(const trp__rnn *n)
{
    return (uint64_t)n->steps * (uint64_t)n->batch;
}

static uint64_t direction_elements(const trp__rnn *n)
{
    const int extra = n->mode >= TRP_RNN_LSTM;
    return vectors_of(n) * (uint64_t)n->hidden * (uint64_t)(trp__rnn_gates(n) + extra);
}

static uint64_t layer_elements(const trp__rnn *n)
{
    return n->directions * (vectors_of(n) * (uint64_t)n->width + direction_elements(n));
}

uint64_t trp__rnn_reserve_elements(const trp__rnn *n)
{
    return (uint64_t)n->layers * layer_elements(n);
}

uint64_t trp__rnn_results_at(const trp__rnn *n, int32_t layer)
{
    return (uint64_t)layer * layer_elements(n);
}

uint64_t trp__rnn_gates_at(const trp__rnn *n, int32_t layer, int direction)
{
    return trp__rnn_results_at(n, layer) + n->directions * vectors_of(n) * (uint64_t)n->width +
           (uint64_t)direction * direction_elements(n);
}

uint64_t trp__rnn_extra_at(const trp__rnn *n, int32_t layer, int direction)
{
    return trp__rnn_gates_at(n, layer, direction) +
           vectors_of(n) * (uint64_t)n->hidden * (uint64_t)trp__rnn_gates(n);
}

/* Hashes seed, layer and element; 53 bits form a number from 0 to 1. Source: Steele, Lea, Flood:
 * Fast splittable pseudorandom number generators (SplitMix64). */
static uint64_t mixed(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

double trp__rnn_keeps(const trp__rnn *n, int32_t layer, uint64_t element)
{
    const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = mixed(mixed(n->seed + step) + step * (uint64_t)layer);
    z = mixed(z + step * (element + 1));
    return (double)(z >> 11) * 0x1p-53 < n->dropout ? 0 : 1 / (1 - n->dropout);
}

/* Computes the elements of each array of a run; 0: unused. */
static void count_arrays(const rnn_run *run, uint64_t count[TRP__RNN_AT_COUNT])
{
    const trp__rnn *n = &run->n;
    const uint64_t vectors = vectors_of(n), batch = (uint64_t)n->batch;
    const uint64_t hidden = (uint64_t)n->hidden, width = (uint64_t)n->width;
    const uint64_t gates = hidden * (uint64_t)trp__rnn_gates(n);
    const uint64_t outputs = n->directions * width;
    const uint64_t inputs = (uint64_t)n->input > outputs ? (uint64_t)n->input : outputs;
    const bool back = run->backward, projected = width != hidden, lstm = n->mode == TRP_RNN_LSTM;
    const uint64_t all[TRP__RNN_AT_COUNT] = {
        [TRP__RNN_AT_X] = vectors * (uint64_t)n->input,
        [TRP__RNN_AT_W] = trp__rnn_weights(n),
        [TRP__RNN_AT_H0] = trp__rnn_place_elements(n, TRP__RNN_h0),
        [TRP__RNN_AT_C0] = lstm ? trp__rnn_place_elements(n, TRP__RNN_c0) : 0,
        [TRP__RNN_AT_H1] = trp__rnn_place_elements(n, TRP__RNN_h1),
        [TRP__RNN_AT_C1] = lstm ? trp__rnn_place_elements(n, TRP__RNN_c1) : 0,
        [TRP__RNN_AT_IN] = n->dropout > 0 ? vectors * outputs : 0,
        [TRP__RNN_AT_PRODUCT] = batch * (gates > width ? gates : width),
        [TRP__RNN_AT_CELLS] = batch * hidden,
        [TRP__RNN_AT_DY] = back ? vectors * inputs : 0,
        [TRP__RNN_AT_DIN] = back ? vectors * inputs : 0,
        [TRP__RNN_AT_DW] = back ? trp__rnn_weights(n) : 0,
        [TRP__RNN_AT_DGATES] = back ? vectors * gates : 0,
        [TRP__RNN_AT_DREST] = back && n->mode == TRP_RNN_GRU ? vectors * gates : 0,
        [TRP__RNN_AT_BEFORE] = back ? vectors * width : 0,
        [TRP__RNN_AT_HIDDEN] = back && projected ? vectors * hidden : 0,
        [TRP__RNN_AT_DH] = back && projected ? vectors * width : 0,
        [TRP__RNN_AT_STEP] = back ? batch * width : 0,
    };
    memcpy(count, all, sizeof all);
}

/* Checks the limits of OpenBLAS, which counts in int. */
static trp_status check_counts(const uint64_t count[TRP__RNN_AT_COUNT], trp_error *error)
{
    for (int i = 0; i < TRP__RNN_AT_COUNT; i++) {
        if (count[i] > INT_MAX)
            return trp__error_set(error, TRP_E_UNSUPPORTED,
                                  "a recurrent network with an array of 2^31 elements or more, "
                                  "which the host backend can't take");
    }
    return TRP_OK;
}

static trp_status make_run(rnn_run *run, const int32_t *length, rnn_run **out, trp_error *error)
{
    const trp__rnn *n = &run->n;
    uint64_t count[TRP__RNN_AT_COUNT];
    count_arrays(run, count);
    trp_status status = check_counts(count, error);
    if (status != TRP_OK)
        return status;
    const uint64_t reserve = run->reserve ? 0 : trp__rnn_reserve_elements(n);
    uint64_t bytes = aligned(sizeof *run);
    const uint64_t lengths_at = bytes;
    bytes = aligned(bytes + (uint64_t)n->batch * sizeof *length);
    const uint64_t arrays_at = bytes;
    for (int i = 0; i < TRP__RNN_AT_COUNT; i++)
        bytes += aligned(count[i] * real_bytes(n));
    run->bytes = (size_t)(bytes + reserve * real_bytes(n));
    char *memory = mmap(NULL, run->bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return trp__error_set_errno(error, "memory for a recurrent network");
    int32_t *lengths = (int32_t *)(void *)(memory + lengths_at);
    for (int32_t i = 0; i < n->batch; i++)
        lengths[i] = length ? length[i] : n->steps;
    run->length = lengths;
    char *next = memory + arrays_at;
    for (int i = 0; i < TRP__RNN_AT_COUNT; i++) {
        run->at[i] = count[i] ? next : NULL;
        next += aligned(count[i] * real_bytes(n));
    }
    if (!run->reserve)
        run->reserve = next;
    memcpy(memory, run, sizeof *run);
    *out = (rnn_run *)(void *)memory;
    return TRP_OK;
}

/* Describes a place as a tensor in the order of the arrays: vectors step by step, everything else
 * in one row. */
static trp__dnn_tensor tensor_of(const trp__rnn *n, int place)
{
    const bool x = place == TRP__RNN_x || place == TRP__RNN_dx;
    trp__dnn_tensor t = {.type = n->type, .rank = 1, .stride = {1}};
    t.dim[0] = (int64_t)trp__rnn_place_elements(n, place);
    if (!x && place != TRP__RNN_y && place != TRP__RNN_dy)
        return t;
    const int64_t elements = x ? n->input : (int64_t)n->directions * n->width;
    t.rank = 3;
    t.dim[0] = n->steps;
    t.dim[1] = n->batch;
    t.dim[2] = elements;
    t.stride[0] = n->batch_first ? elements : n->batch * elements;
    t.stride[1] = n->batch_first ? n->steps * elements : elements;
    t.stride[2] = 1;
    return t;
}

/* Zeroes vectors after the ends of sequences. */
static void clear_ends(const rnn_run *run, int64_t elements, void *at)
{
    const size_t bytes = (size_t)elements * real_bytes(&run->n);
    for (int32_t t = 0; t < run->n.steps; t++) {
        for (int32_t b = 0; b < run->n.batch; b++) {
            if (t >= run->length[b])
                memset((char *)at + ((size_t)t * (size_t)run->n.batch + (size_t)b) * bytes, 0,
                       bytes);
        }
    }
}

/* Loads a place; without one the array stays 0, like new memory. */
static void load(const rnn_run *run, int place, int array)
{
    const trp__dnn_tensor t = tensor_of(&run->n, place);
    if (!run->place[place])
        return;
    trp__dnn_host_load(&t, run->place[place], is_wide(&run->n), run->at[array]);
    if (t.rank == 3)
        clear_ends(run, t.dim[2], run->at[array]);
}

static void store(const rnn_run *run, int place, const void *from)
{
    const trp__dnn_tensor t = tensor_of(&run->n, place);
    if (run->place[place])
        trp__dnn_host_store(&t, run->place[place], is_wide(&run->n), from);
}

typedef struct run_arguments {
    rnn_run *run;
} run_arguments;

static void run_now(void *arguments)
{
    rnn_run *run = ((run_arguments *)arguments)->run;
    const trp__rnn *n = &run->n;
    load(run, TRP__RNN_x, TRP__RNN_AT_X);
    load(run, TRP__RNN_w, TRP__RNN_AT_W);
    load(run, TRP__RNN_h0, TRP__RNN_AT_H0);
    load(run, TRP__RNN_c0, TRP__RNN_AT_C0);
    if (run->backward) {
        load(run, TRP__RNN_dy, TRP__RNN_AT_DY);
        load(run, TRP__RNN_dh1, TRP__RNN_AT_H1);
        load(run, TRP__RNN_dc1, TRP__RNN_AT_C1);
        (is_wide(n) ? trp__rnn_backward_f64 : trp__rnn_backward_f32)(run);
        store(run, TRP__RNN_dx, run->at[TRP__RNN_AT_DIN]);
        store(run, TRP__RNN_dh0, run->at[TRP__RNN_AT_H1]);
        store(run, TRP__RNN_dc0, run->at[TRP__RNN_AT_C1]);
        store(run, TRP__RNN_dw, run->at[TRP__RNN_AT_DW]);
    } else {
        (is_wide(n) ? trp__rnn_forward_f64 : trp__rnn_forward_f32)(run);
        store(run, TRP__RNN_y,
              (char *)run->reserve + trp__rnn_results_at(n, n->layers - 1) * real_bytes(n));
        store(run, TRP__RNN_h1, run->at[TRP__RNN_AT_H1]);
        store(run, TRP__RNN_c1, run->at[TRP__RNN_AT_C1]);
    }
    munmap(run, run->bytes);
}

static trp_status find_lengths(const trp__rnn *n, const trp_job *job, const int32_t **length,
                               trp_error *error)
{
    void *at = NULL;
    trp_status status = TRP_OK;
    if (n->lengths)
        status = trp__rnn_piece(job, (uint64_t)n->batch * sizeof **length, &at, error);
    *length = at;
    for (int32_t i = 0; i < n->batch && at && status == TRP_OK; i++) {
        if ((*length)[i] < 1 || (*length)[i] > n->steps) /* memory safety depends on it */
            status = trp__error_set(error, TRP_E_INTERNAL, "a sequence of %d of %d steps",
                                    (*length)[i], n->steps);
    }
    return status;
}

static trp_status answer_reserve(const trp__rnn *n, const trp_job *job, trp_error *error)
{
    const uint64_t bytes = trp__rnn_reserve_elements(n) * real_bytes(n);
    void *at;
    trp_status status = trp__rnn_piece(job, sizeof bytes, &at, error);
    if (status == TRP_OK)
        memcpy(at, &bytes, sizeof bytes);
    return status;
}

trp_status trp__rnn_host_handle(trp_instance *instance, const trp__openblas *blas, trp_job *job,
                                trp_error *error)
{
    rnn_run run = {.blas = blas, .backward = job->op == TRP_OP_RNN_BACKWARD};
    run_arguments arguments;
    const int32_t *length;
    uint64_t bytes = 0;
    memcpy(&run.n, job->payload, sizeof run.n);
    if (job->op == TRP_OP_RNN_RESERVE)
        return answer_reserve(&run.n, job, error);
    trp_status status = find_lengths(&run.n, job, &length, error);
    for (int i = 0; i < TRP__RNN_PLACE_COUNT && status == TRP_OK; i++) {
        status = trp__rnn_place(&run.n, job, i, &run.place[i], &bytes, error);
        const uint64_t needed = trp__rnn_reserve_elements(&run.n) * real_bytes(&run.n);
        if (status == TRP_OK && i == TRP__RNN_reserve && run.place[i] && bytes < needed)
            return trp__error_set(error, TRP_E_ARGUMENT,
                                  "reserve: expected %llu bytes or more, got %llu",
                                  (unsigned long long)needed, (unsigned long long)bytes);
    }
    run.reserve = run.place[TRP__RNN_reserve];
    if (status == TRP_OK)
        status = make_run(&run, length, &arguments.run, error);
    if (status != TRP_OK)
        return status;
    status = instance->services->enqueue(instance, run_now, &arguments, sizeof arguments, error);
    if (status != TRP_OK)
        munmap(arguments.run, arguments.run->bytes);
    return status;
}
