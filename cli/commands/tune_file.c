/* The problems of `troupe tune`:
 *
 *     # m n k, then words in any order
 *     4096 4096 1024  type=bf16 trans=tn epilogue=bias+gelu+aux
 *     512 512 512     type=f8e4m3 type_d=bf16 trans=tn scale=tensor batch=8
 */
#include "tune.h"

#include "data/operand.h"
#include "ui/options.h"
#include "ui/lines.h"
#include "ui/ui.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACE " \t\r\n"

/* A line being parsed. */
typedef struct reader {
    tune_problem *p;
    bool bias, aux;
    char *error;
    size_t error_size;
} reader;

#define wrong(r, ...) lines_wrong((r)->error, (r)->error_size, __VA_ARGS__)

/* Values. */

static bool read_type(const char *value, trp_dtype *out)
{
    *out = operand_named_type(value);
    return *out != TRP_DTYPE_NONE;
}

static bool set_type(reader *r, const char *value)
{
    return read_type(value, &r->p->request.a.type);
}

static bool set_type_b(reader *r, const char *value)
{
    return read_type(value, &r->p->request.b.type);
}

static bool set_type_c(reader *r, const char *value)
{
    return read_type(value, &r->p->request.c.type);
}

static bool set_type_d(reader *r, const char *value)
{
    return read_type(value, &r->p->request.d.type);
}

static bool read_trans(char letter, trp_transpose *out)
{
    *out = letter == 't' ? TRP_T : letter == 'c' ? TRP_C : TRP_N;
    return letter != '\0' && strchr("ntc", letter) != NULL;
}

static bool set_trans(reader *r, const char *value)
{
    return read_trans(value[0], &r->p->request.trans_a) &&
           read_trans(value[1], &r->p->request.trans_b) && value[2] == '\0';
}

static bool set_order(reader *r, const char *value)
{
    trp_matmul_request *q = &r->p->request;
    trp_order *orders[] = {&q->a.order, &q->b.order, &q->d.order};
    bool row = !strcmp(value, "row");
    if (!row && strcmp(value, "col") != 0 &&
        (strlen(value) != 3 || strspn(value, "rc") != strlen(value)))
        return false;
    for (int i = 0; i < 3; i++)
        *orders[i] =
            row || (strcmp(value, "col") != 0 && value[i] == 'r') ? TRP_ROW_MAJOR : TRP_COL_MAJOR;
    return true;
}

static bool set_batch(reader *r, const char *value)
{
    return options_number(value, &r->p->request.batch) && r->p->request.batch > 0;
}

static bool set_workspace(reader *r, const char *value)
{
    int64_t bytes = 0;
    bool ok = options_number(value, &bytes);
    r->p->request.workspace_bytes = (uint64_t)bytes;
    return ok;
}

static bool set_scale(reader *r, const char *value)
{
    trp_scale_mode mode = !strcmp(value, "vector") ? TRP_SCALE_VECTOR : TRP_SCALE_TENSOR;
    r->p->request.a.scale.mode = r->p->request.b.scale.mode = mode;
    r->p->bytes[TUNE_SCALE_A] = r->p->bytes[TUNE_SCALE_B] = 4; /* multiplied by the size later */
    return mode == TRP_SCALE_VECTOR || !strcmp(value, "tensor");
}

/* Reads one part of epilogue=bias+gelu+aux. */
static bool set_part(reader *r, const char *part)
{
    static const struct {
        const char *name;
        trp_activation activation;
        trp_bias_gradient sums;
    } parts[] = {{"relu", TRP_ACTIVATION_RELU, 0},
                 {"gelu", TRP_ACTIVATION_GELU, 0},
                 {"drelu", TRP_ACTIVATION_DRELU, 0},
                 {"dgelu", TRP_ACTIVATION_DGELU, 0},
                 {"sums_a", 0, TRP_BIAS_GRADIENT_A},
                 {"sums_b", 0, TRP_BIAS_GRADIENT_B},
                 {"sums_d", 0, TRP_BIAS_GRADIENT_D},
                 {"bias", 0, 0},
                 {"aux", 0, 0}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(parts[i].name, part) != 0)
            continue;
        if (parts[i].activation)
            r->p->request.activation = parts[i].activation;
        if (parts[i].sums)
            r->p->request.gradient_of = parts[i].sums;
        r->bias = r->bias || !strcmp(part, "bias");
        r->aux = r->aux || !strcmp(part, "aux") || part[0] == 'd';
        return true;
    }
    return false;
}

static bool set_epilogue(reader *r, const char *value)
{
    char text[64], *rest = text, *part;
    if (strlen(value) >= sizeof text)
        return false;
    snprintf(text, sizeof text, "%s", value);
    while ((part = strsep(&rest, "+")))
        if (!set_part(r, part))
            return false;
    return true;
}

static bool set_c(reader *r, const char *value)
{
    r->p->in_place = !strcmp(value, "d");
    r->p->request.beta = trp_real(1);
    return r->p->in_place || !strcmp(value, "apart");
}

/* Words. */

static bool set_flag(reader *r, const char *word)
{
    trp_matmul_request *q = &r->p->request;
    if (!strcmp(word, "tf32"))
        q->compute = TRP_COMPUTE_TF32;
    else if (!strcmp(word, "pedantic"))
        q->compute = TRP_COMPUTE_PEDANTIC;
    else if (!strcmp(word, "fast"))
        q->fast_accumulation = true;
    else if (!strcmp(word, "amax"))
        r->p->bytes[TUNE_AMAX] = 4;
    else if (!strcmp(word, "scale_d"))
        r->p->bytes[TUNE_SCALE_D] = 4;
    else
        return false;
    return true;
}

static const struct {
    const char *key, *expected;
    bool (*set)(reader *r, const char *value);
} keys[] = {
    {"type", "a type", set_type},
    {"type_b", "a type", set_type_b},
    {"type_c", "a type", set_type_c},
    {"type_d", "a type", set_type_d},
    {"trans", "two letters of n, t and c, for A and B", set_trans},
    {"order", "col, row, or three letters of c and r, for A, B and D", set_order},
    {"batch", "a count", set_batch},
    {"epilogue", "bias, relu, gelu, drelu, dgelu, aux, sums_a, sums_b and sums_d, joined by +",
     set_epilogue},
    {"add", "d (in D's place) or apart", set_c},
    {"scale", "tensor or vector", set_scale},
    {"workspace", "bytes", set_workspace},
};

static bool read_word(reader *r, const char *word)
{
    const char *equals = strchr(word, '=');
    for (size_t i = 0; equals && i < sizeof keys / sizeof *keys; i++) {
        if (strlen(keys[i].key) != (size_t)(equals - word) ||
            strncmp(keys[i].key, word, (size_t)(equals - word)) != 0)
            continue;
        return keys[i].set(r, equals + 1) ||
               wrong(r, "'%.60s': expected %s=%s", word, keys[i].key, keys[i].expected);
    }
    if (!equals && set_flag(r, word))
        return true;
    return wrong(r,
                 "'%.60s': expected type=, type_b=, type_c=, type_d=, trans=, order=, batch=, "
                 "epilogue=, add=, scale=, workspace=, scale_d, amax, tf32, "
                 "pedantic or fast",
                 word);
}

/* Sizes. */

static uint64_t element_bits(trp_dtype type, trp_dtype missing)
{
    return trp_dtype_bits(type ? type : missing);
}

/* Lays out lines of `length` elements, padded to `unit`; sets the stride of a batch. */
static bool size_lines(trp_matmul_matrix *m, int64_t length, int64_t lines, int64_t unit,
                       int64_t batch, uint64_t bits, uint64_t *bytes)
{
    uint64_t all;
    if (length > INT64_MAX - unit)
        return false;
    m->ld = (length + unit - 1) / unit * unit;
    if (__builtin_mul_overflow(m->ld, lines, &m->stride) ||
        __builtin_mul_overflow((uint64_t)m->stride, (uint64_t)batch, &all) ||
        __builtin_mul_overflow(all, bits, &all) || all > INT64_MAX - 8)
        return false;
    *bytes = (all + 7) / 8;
    return true;
}

static bool size_matrix(trp_matmul_matrix *m, int64_t rows, int64_t cols, int64_t batch,
                        uint64_t bits, uint64_t *bytes)
{
    bool row_major = m->order == TRP_ROW_MAJOR;
    return size_lines(m, row_major ? cols : rows, row_major ? rows : cols, 1, batch, bits, bytes);
}

static bool size_aux(const reader *r, uint64_t bits)
{
    trp_matmul_request *q = &r->p->request;
    bool flags = q->activation == TRP_ACTIVATION_RELU || q->activation == TRP_ACTIVATION_DRELU;
    bool row_major = q->d.order == TRP_ROW_MAJOR;
    q->aux.order = q->d.order;
    return !r->aux ||
           size_lines(&q->aux, row_major ? q->n : q->m, row_major ? q->m : q->n, flags ? 128 : 8,
                      q->batch, flags ? 1 : bits, &r->p->bytes[TUNE_AUX]);
}

/* Determines each operand's memory, for the widest type where its default is unknown. */
static bool set_sizes(reader *r)
{
    trp_matmul_request *q = &r->p->request;
    uint64_t *bytes = r->p->bytes;
    uint64_t a = element_bits(q->a.type, 0), b = element_bits(q->b.type, q->a.type);
    uint64_t d = element_bits(q->d.type, q->a.type == TRP_I8 ? TRP_I32 : q->a.type);
    uint64_t c = element_bits(q->c.type, TRP_DTYPE_NONE);
    bool a_is = q->trans_a == TRP_N, b_is = q->trans_b == TRP_N, adds = q->beta.given;
    int64_t line = q->d.order == TRP_ROW_MAJOR ? q->n : q->m;
    int64_t vector = q->gradient_of == TRP_BIAS_GRADIENT_A   ? q->m
                     : q->gradient_of == TRP_BIAS_GRADIENT_B ? q->n
                                                             : line;
    bool gradient = q->gradient_of != TRP_BIAS_GRADIENT_NONE;
    bool vectors = q->a.scale.mode == TRP_SCALE_VECTOR;
    uint64_t all;
    q->c.order = q->d.order;
    if (!size_matrix(&q->a, a_is ? q->m : q->k, a_is ? q->k : q->m, q->batch, a, &bytes[TUNE_A]) ||
        !size_matrix(&q->b, b_is ? q->k : q->n, b_is ? q->n : q->k, q->batch, b, &bytes[TUNE_B]) ||
        !size_matrix(&q->d, q->m, q->n, q->batch, d, &bytes[TUNE_D]) ||
        (adds && !r->p->in_place &&
         !size_matrix(&q->c, q->m, q->n, q->batch,
                      c        ? c
                      : d < 16 ? 16
                               : d,
                      &bytes[TUNE_C])) ||
        !size_aux(r, d < 16 ? 16 : d) ||
        __builtin_mul_overflow((uint64_t)vector * 8, (uint64_t)q->batch, &all))
        return wrong(r, "the matrices are too large for any memory");
    q->bias.stride = 0;
    q->gradient.stride = vector;
    bytes[TUNE_VECTOR] = r->bias || gradient ? all : 0;
    bytes[TUNE_SCALE_A] *= vectors ? (uint64_t)q->m : 1;
    bytes[TUNE_SCALE_B] *= vectors ? (uint64_t)q->n : 1;
    return true;
}

/* Lines. */

static bool read_size(reader *r, const char *word, const char *name, int64_t *out)
{
    if (word && options_number(word, out) && *out > 0 && *out <= INT64_MAX / 256)
        return true;
    return wrong(r, "'%.60s': expected %s, a size of at least 1", word ? word : "", name);
}

static void append(tune_problem *p, const char *word)
{
    size_t used = strlen(p->text);
    snprintf(p->text + used, sizeof p->text - used, "%s%s", used ? " " : "", word);
}

bool tune_parse_line(const char *line, tune_problem *out, char *error, size_t error_size)
{
    char text[512], *rest = text, *word;
    reader r = {.p = out, .error = error, .error_size = error_size};
    trp_matmul_request *q = &out->request;
    int words = 0;
    *out = (tune_problem){.request = {.batch = 1, .a.type = TRP_F32}};
    if (strcspn(line, "#") >= sizeof text)
        return wrong(&r, "the line is longer than %zu bytes", sizeof text - 1);
    snprintf(text, sizeof text, "%.*s", (int)strcspn(line, "#"), line);
    while ((word = strsep(&rest, SPACE))) {
        static const char *const names[] = {"m", "n", "k"};
        int64_t *const sizes[] = {&q->m, &q->n, &q->k};
        if (*word == '\0')
            continue;
        append(out, word);
        if (words < 3 ? !read_size(&r, word, names[words], sizes[words]) : !read_word(&r, word))
            return false;
        words++;
    }
    if (words == 0)
        return true;
    if (words < 3)
        return wrong(&r, "'%.60s': expected m, n and k", out->text);
    out->line = 1;
    return set_sizes(&r);
}

typedef struct problems {
    tune_problem *all;
    size_t count;
} problems;

static bool take_line(void *context, const char *line, int number, char *error, size_t size)
{
    problems *read = context;
    tune_problem p, *more;
    if (!tune_parse_line(line, &p, error, size))
        return false;
    if (p.line == 0)
        return true;
    p.line = number;
    more = lines_room(read->all, read->count, sizeof p);
    if (!more)
        return lines_wrong(error, size, "out of memory");
    read->all = more;
    read->all[read->count++] = p;
    return true;
}

bool tune_read_file(const char *path, tune_problem **out, size_t *count)
{
    problems read = {0};
    bool ok = lines_read(path, take_line, &read);
    *out = read.all;
    *count = read.count;
    return ok;
}
