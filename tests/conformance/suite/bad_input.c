/* Makes one mistake at a time in right requests, by the tables of their fields. See conformance.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "conformance/conformance.h"

enum { LARGE = 1 << 23, TINY = 1 };

/* Handles for mistakes, and the counts of requests. */
typedef struct stand {
    cf_bench *bench;
    const cf_problem *p;
    const cf_family *family;
    /* freed; of another device; of one byte; of LARGE bytes */
    trp_buffer stale, foreign, tiny, large;
    _Alignas(16) unsigned char right[CF_REQUEST_BYTES], wrong[CF_REQUEST_BYTES];
    int tried, mistakes;
} stand;

static bool has(const stand *s, cf_has bits)
{
    return s->p->operation->has & bits;
}

static bool is_complex(const stand *s)
{
    return s->p->operation->variants[s->p->variant].is_complex;
}

/* ---- changing one thing ---- */

static void begin(stand *s)
{
    memcpy(s->wrong, s->right, sizeof s->wrong);
}

static void put(stand *s, size_t at, const void *value, size_t bytes)
{
    memcpy(s->wrong + at, value, bytes);
}

static trp_buffer buffer_at(const stand *s, size_t at)
{
    trp_buffer b;
    memcpy(&b, s->right + at, sizeof b);
    return b;
}

static trp_status submit(const stand *s, void *request, trp_completion *done)
{
    return s->family->submit ? s->family->submit(s->bench->at, s->p, request, done)
                             : trp_submit(s->bench->at, request, done);
}

/* Checks that the changed request is refused with a word, and that nothing is queued. */
static void refused(stand *s, trp_status wanted, const char *word, const char *what, int64_t value)
{
    trp_completion done = {.future = {9}};
    trp_status got = submit(s, s->wrong, &done);
    s->tried++;
    if (got == wanted && strstr(trp_error_message(), word) && done.future.id == 9)
        return;
    if (got == TRP_E_UNSUPPORTED && s->p->may_refuse && done.future.id == 9)
        return;
    fprintf(stderr, "%s %s with %s (%lld): expected %s, \"%s\", got %s%s%s\n",
            s->p->operation->name, s->p->operation->variants[s->p->variant].name, what,
            (long long)value, trp_status_name(wanted), word, trp_status_name(got),
            got == TRP_OK ? "" : ": ", got == TRP_OK ? "" : trp_error_message());
    if (got == TRP_OK)
        h_await_any(done);
    s->mistakes++;
}

static void bad_number(stand *s, const cf_field *f, int64_t value, const char *word)
{
    begin(s);
    put(s, f->at, &value, sizeof value);
    refused(s, TRP_E_ARGUMENT, word, f->name, value);
}

static void bad_enum(stand *s, const cf_field *f, int value)
{
    begin(s);
    put(s, f->at, &value, sizeof value);
    refused(s, TRP_E_ARGUMENT, f->name, f->name, value);
}

/* ---- fields ---- */

static void bad_types(stand *s, const cf_field *f)
{
    const cf_operation *o = s->p->operation;
    for (int type = 0; type < TRP_DTYPE_COUNT; type++) {
        bool taken = false;
        for (unsigned v = 0; v < o->variant_count; v++)
            taken = taken || o->variants[v].type == (trp_dtype)type;
        if (!taken)
            bad_enum(s, f, type);
    }
    bad_enum(s, f, -1);
    bad_enum(s, f, 999);
}

static void bad_scalar(stand *s, const cf_field *f)
{
    const trp_scalar complex = trp_complex(1, 1), real = trp_real(1), none = {0};
    const bool in_buffer = s->family->scalars && buffer_at(s, s->family->scalars).id;
    if (!has(s, f->has) || in_buffer) {
        begin(s);
        put(s, f->at, &real, sizeof real);
        refused(s, TRP_E_ARGUMENT, f->name, f->name, 1);
        return;
    }
    if (!is_complex(s) || has(s, f->real)) {
        begin(s);
        put(s, f->at, &complex, sizeof complex);
        refused(s, TRP_E_ARGUMENT, f->name, "a complex scalar", 1);
    }
    if (has(s, f->needed)) {
        begin(s);
        put(s, f->at, &none, sizeof none);
        refused(s, TRP_E_ARGUMENT, f->name, "no scalar", 0);
    }
}

static void bad_numbers(stand *s, const cf_field *f, const int64_t *values, size_t count,
                        const char *word)
{
    for (size_t i = 0; i < count; i++)
        bad_number(s, f, values[i], word);
}
#define BAD_NUMBERS(word, ...)                                                                     \
    bad_numbers(s, f, (const int64_t[]){__VA_ARGS__},                                              \
                sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), word)

/* Tries counts that are negative, larger than the operands, or so large that products overflow. */
static void bad_count(stand *s, const cf_field *f)
{
    int64_t right;
    memcpy(&right, s->right + f->at, sizeof right);
    BAD_NUMBERS(f->name, -1, INT64_MIN);
    BAD_NUMBERS("", right + 1, INT64_C(1) << 32, INT64_C(1) << 61, INT64_MAX);
}

static void bad_field(stand *s, const cf_field *f)
{
    const bool used = has(s, f->has);
    switch (f->role) {
    case CF_TYPE:
        bad_types(s, f);
        break;
    case CF_OPTION:
        bad_enum(s, f, used ? (int)f->limit : 1);
        bad_enum(s, f, -1);
        break;
    case CF_SCALAR:
        bad_scalar(s, f);
        break;
    case CF_COUNT:
        if (used)
            bad_count(s, f);
        break;
    case CF_UNUSED0:
        if (used)
            bad_count(s, f);
        else
            BAD_NUMBERS(f->name, 1);
        break;
    case CF_LD:
        if (used)
            BAD_NUMBERS(f->name, 1, -1, INT64_MIN);
        break;
    case CF_INC:
        if (used)
            BAD_NUMBERS("", 64, INT64_MIN, INT64_MAX);
        break;
    case CF_FORWARD:
        if (used)
            BAD_NUMBERS(f->name, -1, INT64_MIN);
        break;
    case CF_BATCH:
        BAD_NUMBERS(f->name, used ? -1 : 2, INT64_MIN);
        break;
    }
}

/* ---- operands ---- */

static void bad_operand(stand *s, const cf_operand *x)
{
    const trp_buffer none = {0}, was = buffer_at(s, x->buffer);
    begin(s);
    if (!has(s, x->has)) {
        put(s, x->buffer, &s->large, sizeof s->large);
        refused(s, TRP_E_ARGUMENT, x->name, x->name, 0);
        return;
    }
    if (!was.id)
        return;
    if (has(s, x->needed)) {
        put(s, x->buffer, &none, sizeof none);
        refused(s, x->missing, x->name, "no buffer", 0);
    }
    const trp_buffer stale[] = {s->stale, s->foreign, {UINT64_MAX}, {1}};
    for (size_t i = 0; i < sizeof stale / sizeof *stale; i++) {
        begin(s);
        put(s, x->buffer, &stale[i], sizeof stale[i]);
        refused(s, TRP_E_STALE, x->name, "no such buffer", (int64_t)i);
    }
    const bool rest = s->p->operation->rest & x->has;
    if (!rest) {
        begin(s);
        put(s, x->buffer, &s->tiny, sizeof s->tiny);
        refused(s, TRP_E_ARGUMENT, x->name, "a buffer of one byte", 0);
    }
    const uint64_t beyond[] = {UINT64_MAX - 15, LARGE * 2, 16, 1};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond - 2 * rest; i++) {
        begin(s);
        put(s, x->offset, &beyond[i], sizeof beyond[i]);
        refused(s, TRP_E_ARGUMENT, x->name, "an offset", (int64_t)beyond[i]);
    }
}

/* Places two operands at the same address, one of which is written. */
static void overlap(stand *s, const cf_operand *x, const cf_operand *y)
{
    const cf_operation *o = s->p->operation;
    const bool either = has(s, x->has) && has(s, y->has) && buffer_at(s, x->buffer).id &&
                        buffer_at(s, y->buffer).id;
    if (!either || !(o->writes & (x->has | y->has) & o->has) ||
        ((o->in_place & x->has) && (o->in_place & y->has)))
        return;
    char what[64];
    begin(s);
    put(s, x->buffer, &s->large, sizeof s->large);
    put(s, y->buffer, &s->large, sizeof s->large);
    snprintf(what, sizeof what, "%s at the place of %s", x->name, y->name);
    refused(s, TRP_E_ARGUMENT, "overlap", what, 0);
}

static void bad_header(stand *s)
{
    trp_request *header = (trp_request *)(void *)s->wrong;
    begin(s);
    header->size -= 8;
    refused(s, TRP_E_VERSION, "size", "a size", header->size);
    begin(s);
    header->op |= 0xff;
    refused(s, TRP_E_UNSUPPORTED, "op", "an operation that there is not", 0);
}

/* ---- all of it ---- */

static void spoil_all(stand *s)
{
    trp_status status = TRP_E_ARGUMENT;
    const char *word = "";
    const cf_wrong wrong = {s->stale, s->tiny, &status, &word};
    for (unsigned i = 0; s->family->spoil; i++) {
        begin(s);
        status = TRP_E_ARGUMENT;
        if (!s->family->spoil(s->p, i, &wrong, s->wrong))
            return;
        refused(s, status, word, "mistake", i);
    }
}

/* Sends the right request first: if it were refused, refusals of its changes would prove nothing.
 */
static void bad_problem(stand *s)
{
    cf_bench *bench = s->bench;
    const cf_family *family = s->family;
    trp_request *header = (trp_request *)(void *)s->right;
    trp_completion done = {0};
    memset(s->right, 0, sizeof s->right);
    family->request(s->p, s->right);
    header->op = s->p->operation->op;
    header->size = (uint32_t)family->request_bytes;
    const uint64_t before = h_info(bench->world.device).requests_submitted;
    for (size_t i = 0; i < family->field_count; i++)
        bad_field(s, &family->fields[i]);
    for (size_t i = 0; i < family->operand_count; i++) {
        bad_operand(s, &family->operands[i]);
        for (size_t k = 0; k < i; k++)
            overlap(s, &family->operands[i], &family->operands[k]);
    }
    spoil_all(s);
    if (!family->submit)
        bad_header(s);
    if (s->mistakes == 0 && !bench->actor->keeps)
        H_EQUAL(h_info(bench->world.device).requests_submitted, before);
    trp_status status = submit(s, s->right, &done);
    if (status == TRP_OK)
        status = h_await_any(done);
    if (status != TRP_E_UNSUPPORTED || !s->p->may_refuse)
        H_OK(status);
}

void cf_bad_input(cf_bench *bench)
{
    static stand s;
    trp_device *device = bench->world.device;
    trp_device *other = NULL;
    const trp_device_options options = h_options();
    H_OK(trp_device_open(bench->world.system, &options, &other));
    s = (stand){
        .bench = bench, .stale = h_buffer(device, LARGE), .foreign = h_buffer(other, LARGE)};
    H_OK(trp_buffer_free(device, s.stale));
    s.tiny = h_buffer(device, TINY);
    s.large = h_buffer(device, LARGE);
    for (size_t i = 0; i < bench->actor->count; i++) {
        const cf_operation *o = &bench->actor->operations[i];
        for (unsigned v = 0; v < o->variant_count && cf_chosen(o); v++) {
            if (cf_excluded(bench->actor, o, v, h_backend(), &(const char *){NULL}))
                continue;
            for (int round = 0; round < (H_SANITIZED ? 1 : 4); round++) {
                cf_problem p;
                cf_draw(&p, o, v, CF_TIGHT);
                cf_upload(bench, &p);
                s.p = &p;
                s.family = o->family;
                bad_problem(&s);
                cf_drop(bench, &p);
            }
        }
    }
    H_OK(trp_buffer_free(device, s.tiny));
    H_OK(trp_buffer_free(device, s.large));
    trp_device_close(other);
    printf("    %d requests with one thing wrong, %d answered otherwise\n", s.tried, s.mistakes);
    H_CHECK(s.mistakes == 0);
}
