/* A worker dies under products of the matmul actor with several outputs each, in flight and queued:
 * each ends once, those that can run again do and leave all their outputs right, and one that has C
 * in D's place loses D and nothing else. */
#include "support/harness.h"

TROUPE_TEST("many workers");

enum { SIDE = 192, CELLS = SIDE * SIDE, PRODUCTS = 12, OUTPUTS = 4 };

/* A product and what it writes; in place D holds C before. */
typedef struct job {
    trp_matmul_request r;
    bool in_place;
    trp_buffer out[OUTPUTS];
    uint64_t bytes[OUTPUTS];
    char *want[OUTPUTS]; /* what it gives undisturbed */
    int ended;
    trp_status status;
} job;

typedef struct stage {
    h_world w;
    trp_actor *actor[3], *probe;
    trp_queue *queue;
    int64_t span;               /* ns that all products take */
    trp_buffer f32, f8, before; /* before: what D is where C is in its place */
    job job[PRODUCTS];
} stage;

static trp_buffer add_output(stage *s, job *j, int which, uint64_t bytes)
{
    j->bytes[which] = bytes;
    j->want[which] = h_malloc(bytes);
    return j->out[which] = h_buffer(s->w.device, bytes);
}

/* Small whole numbers, which the types and the sums hold exactly. */
static trp_buffer inputs(trp_device *device, bool fp8)
{
    static const uint8_t codes[] = {0x38, 0xb8, 0x40, 0x00}; /* 1, -1, 2, 0 */
    static const float values[] = {1, -1, 2, 0};
    static float numbers[CELLS];
    static uint8_t bytes[CELLS];
    trp_buffer b = h_buffer(device, fp8 ? sizeof bytes : sizeof numbers);
    for (int i = 0; i < CELLS; i++) {
        size_t pick = ref_rng_below(h_rng(), 4);
        bytes[i] = codes[pick];
        numbers[i] = values[pick];
    }
    h_write(device, b, 0, fp8 ? (const void *)bytes : numbers, fp8 ? sizeof bytes : sizeof numbers);
    return b;
}

/* The kinds in turn: relu with bits; fp8 with gelu, aux and largest values; a derivative with the
 * sums of D; in place. */
static void make_job(stage *s, job *j, int kind)
{
    bool fp8 = kind == 1;
    j->in_place = kind == 3;
    j->r = (trp_matmul_request){.m = SIDE, .n = SIDE, .k = SIDE, .trans_a = TRP_T};
    j->r.a =
        (trp_matmul_matrix){.buffer = fp8 ? s->f8 : s->f32, .type = fp8 ? TRP_F8E4M3 : TRP_F32};
    j->r.b.buffer = j->r.a.buffer;
    j->r.d.buffer = add_output(s, j, 0, CELLS * (fp8 ? 1 : 4));
    if (kind == 0) {
        j->r.activation = TRP_ACTIVATION_RELU;
        j->r.aux.buffer = add_output(s, j, 1, (SIDE + 127) / 128 * 16 * SIDE);
    } else if (kind == 1) {
        j->r.alpha = trp_real(0x1p-6);
        j->r.activation = TRP_ACTIVATION_GELU;
        j->r.aux.buffer = add_output(s, j, 1, CELLS);
        j->r.amax_d = add_output(s, j, 2, 4);
        j->r.amax_aux = add_output(s, j, 3, 4);
    } else if (kind == 2) {
        j->r.activation = TRP_ACTIVATION_DGELU;
        j->r.aux.buffer = s->f32;
        j->r.gradient_of = TRP_BIAS_GRADIENT_D;
        j->r.gradient.buffer = add_output(s, j, 1, SIDE * 4);
    } else {
        j->r.beta = trp_real(1);
        j->r.c = j->r.d;
    }
}

/* False if the backend has no such actor. */
static bool open_stage(stage *s)
{
    *s = (stage){.w = h_open(NULL)};
    trp_device *d = s->w.device;
    for (int i = 0; i < 3; i++) {
        trp_actor_options options = {.kind = "matmul"};
        trp_status status = trp_actor_create(d, &options, &s->actor[i]);
        if (status == TRP_E_UNSUPPORTED) {
            h_close(&s->w);
            return false;
        }
        H_OK(status);
    }
    s->probe = h_actor(d, "probe");
    H_OK(trp_queue_create(s->w.system, &s->queue));
    s->f32 = inputs(d, false);
    s->f8 = inputs(d, true);
    s->before = inputs(d, false);
    for (int i = 0; i < PRODUCTS; i++)
        make_job(s, &s->job[i], i % 4);
    return true;
}

static void close_stage(stage *s)
{
    H_OK(trp_queue_destroy(s->queue));
    for (int i = 0; i < PRODUCTS * OUTPUTS; i++)
        free(s->job[i / OUTPUTS].want[i % OUTPUTS]);
    h_close(&s->w);
}

/* All outputs as they were before any product: bits past a line's end are to stay. */
static void reset(stage *s)
{
    for (int i = 0; i < PRODUCTS; i++) {
        job *j = &s->job[i];
        j->ended = 0;
        for (int k = 0; k < OUTPUTS; k++) {
            if (!j->bytes[k])
                continue;
            h_fill(s->w.device, j->out[k], 0x7f7f7f7f);
        }
        trp_completion done = {0};
        if (!j->in_place)
            continue;
        H_OK(trp_copy(s->w.device, s->before, 0, j->out[0], 0, CELLS * 4, &done));
        H_OK(h_await_any(done));
    }
}

static void send_all(stage *s)
{
    for (int i = 0; i < PRODUCTS; i++)
        H_OK(trp_matmul(s->actor[i % 3], &s->job[i].r,
                        &(trp_completion){.queue = s->queue, .user_data = &s->job[i]}));
}

/* Takes the end of each product, and finds no other one. */
static void collect(stage *s)
{
    trp_event event;
    for (int i = 0; i < PRODUCTS; i++) {
        H_OK(trp_queue_next(s->queue, H_LONG, &event));
        job *j = event.user_data;
        j->ended++;
        j->status = event.status;
    }
    H_OK(trp_device_drain(s->w.device, H_LONG));
    H_IS(trp_queue_next(s->queue, 0, &event), TRP_E_TIMEOUT);
    for (int i = 0; i < PRODUCTS; i++)
        H_EQUAL(s->job[i].ended, 1);
}

/* Remembers the outputs, or compares them with what is remembered. */
static void look(stage *s, job *j, bool remember)
{
    for (int k = 0; k < OUTPUTS; k++) {
        if (!j->bytes[k])
            continue;
        char *got = remember ? j->want[k] : h_malloc(j->bytes[k]);
        H_CHECK(!h_buffer_info(s->w.device, j->out[k]).lost);
        h_read(s->w.device, j->out[k], 0, got, j->bytes[k]);
        if (!remember) {
            H_SAME(got, j->want[k], j->bytes[k]);
            free(got);
        }
    }
}

/* The worker dies at a random time while the products are under way. Returns how many were lost. */
static int disturb(stage *s, trp_probe_action action)
{
    trp_completion guilty = {0};
    int lost = 0;
    reset(s);
    send_all(s);
    h_sleep((int64_t)ref_rng_below(h_rng(), (size_t)s->span * 5 / 4));
    h_probe(s->probe, action, &guilty);
    collect(s);
    H_IS(h_await_any(guilty), TRP_E_FAULT);
    h_await_state(s->w.device, TRP_DEVICE_READY);
    for (int i = 0; i < PRODUCTS; i++) {
        job *j = &s->job[i];
        if (j->status == TRP_OK) {
            look(s, j, false);
            continue;
        }
        H_IS(j->status, TRP_E_FAULT);
        H_CHECK(j->in_place);
        H_CHECK(h_buffer_info(s->w.device, j->out[0]).lost);
        lost++;
    }
    return lost;
}

/* Not every cuBLASLt has fp8 with all of these outputs. */
static void leave_out_what_is_refused(stage *s)
{
    trp_completion done = {0};
    job *first = &s->job[1];
    H_OK(trp_matmul(s->actor[0], &first->r, &done));
    trp_status status = h_await_any(done);
    if (status == TRP_OK)
        return;
    H_IS(status, TRP_E_UNSUPPORTED);
    H_CHECK(h_is_cuda());
    printf("  without aux of fp8: %s\n", trp_error_message());
    for (int i = 1; i < PRODUCTS; i += 4) {
        job *j = &s->job[i];
        j->r.aux = (trp_matmul_matrix){0};
        j->r.amax_aux = (trp_buffer){0};
        j->bytes[1] = j->bytes[3] = 0;
    }
}

static void killed_under_products(void)
{
    static const trp_probe_action actions[] = {TRP_PROBE_ABORT, TRP_PROBE_KILL, TRP_PROBE_SEGV};
    static stage s;
    int lost = 0, rounds = H_SANITIZED ? 6 : 24;
    if (!open_stage(&s))
        h_skip("this backend has no matmul actor");
    leave_out_what_is_refused(&s);
    for (int i = 0; i < 2; i++) { /* the first time, libraries wake up */
        reset(&s);
        s.span = -h_now();
        send_all(&s);
        collect(&s);
        s.span += h_now();
    }
    for (int i = 0; i < PRODUCTS; i++) {
        H_OK(s.job[i].status);
        look(&s, &s.job[i], true);
    }
    for (int i = 0; i < rounds; i++)
        lost += disturb(&s, actions[i % 3]);
    printf("  %d products, %d of them in place and lost; %u workers died\n", rounds * PRODUCTS,
           lost, h_info(s.w.device).restarts);
    close_stage(&s);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {{"killed_under_products", killed_under_products}};
    h_need_process_isolation();
    return h_main(argc, argv, cases, 1);
}
