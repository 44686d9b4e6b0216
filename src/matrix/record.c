#include "matrix/record.h"

#include "base/bytes.h"
#include "base/text.h"

#include <troupe/matmul.h>

#include <inttypes.h>
#include <stdio.h>

/* Text. */

typedef struct words {
    trp__text text;
    const trp__matmul *g;
} words;

static bool has(const words *w, int operand)
{
    return trp__matmul_has(w->g, operand);
}

static void add_if(words *w, bool wanted, const char *word)
{
    if (wanted)
        trp__text_add(&w->text, " %s", word);
}

static void add_types(words *w)
{
    const trp__matmul *g = w->g;
    const uint8_t *type = g->type;
    const struct {
        const char *word;
        bool there;
        uint8_t type, preset;
    } rows[] = {
        {"type", true, type[TRP__MATMUL_A], TRP_DTYPE_NONE},
        {"type_b", true, type[TRP__MATMUL_B], type[TRP__MATMUL_A]},
        {"type_c", has(w, TRP__MATMUL_C), type[TRP__MATMUL_C], type[TRP__MATMUL_D]},
        {"type_d", true, type[TRP__MATMUL_D], type[TRP__MATMUL_A]},
        {"type_aux", has(w, TRP__MATMUL_AUX) && type[TRP__MATMUL_AUX] != TRP_DTYPE_NONE,
         type[TRP__MATMUL_AUX], type[TRP__MATMUL_D]},
        {"type_vector", has(w, TRP__MATMUL_VECTOR), g->vector_type, type[TRP__MATMUL_D]},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].there && rows[i].type != rows[i].preset)
            trp__text_add(&w->text, " %s=%s", rows[i].word,
                          trp_dtype_name((trp_dtype)rows[i].type));
    }
}

/* "epilogue=bias+gelu+aux". */
static void add_epilogue(words *w)
{
    static const char *const activations[] = {
        [TRP_ACTIVATION_RELU] = "relu",   [TRP_ACTIVATION_GELU] = "gelu",
        [TRP_ACTIVATION_SILU] = "silu",   [TRP_ACTIVATION_DRELU] = "drelu",
        [TRP_ACTIVATION_DGELU] = "dgelu",
    };
    static const char *const gradients[] = {
        [TRP_BIAS_GRADIENT_D] = "sums_d",
        [TRP_BIAS_GRADIENT_A] = "sums_a",
        [TRP_BIAS_GRADIENT_B] = "sums_b",
    };
    const trp__matmul *g = w->g;
    bool gradient = g->gradient % 4 != TRP_BIAS_GRADIENT_NONE;
    const char *parts[] = {
        has(w, TRP__MATMUL_VECTOR) && !gradient ? "bias" : NULL,
        g->activation < sizeof activations / sizeof *activations ? activations[g->activation]
                                                                 : NULL,
        has(w, TRP__MATMUL_AUX) && !trp__matmul_is_derivative(g)
            ? "aux"
            : NULL, /* a derivative reads aux */
        gradients[g->gradient % 4],
    };
    const char *before = " epilogue=";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i]) {
            trp__text_add(&w->text, "%s%s", before, parts[i]);
            before = "+";
        }
    }
}

static const char *scale_text(uint8_t mode)
{
    static const char *const texts[] = {
        [TRP_SCALE_TENSOR] = "tensor",       [TRP_SCALE_VECTOR] = "vector",
        [TRP_SCALE_BLOCK_16] = "block_16",   [TRP_SCALE_BLOCK_32] = "block_32",
        [TRP_SCALE_BLOCK_128] = "block_128", [TRP_SCALE_BLOCK_128X128] = "block_128x128",
    };
    return texts[mode % (sizeof texts / sizeof *texts)];
}

static void add_scales(words *w)
{
    const trp__matmul *g = w->g;
    bool a = has(w, TRP__MATMUL_SCALE_A), b = has(w, TRP__MATMUL_SCALE_B);
    if (a && b && g->scale_a == g->scale_b)
        trp__text_add(&w->text, " scale=%s", scale_text(g->scale_a));
    else if (a)
        trp__text_add(&w->text, " scale_a=%s", scale_text(g->scale_a));
    if (b && !(a && g->scale_a == g->scale_b))
        trp__text_add(&w->text, " scale_b=%s", scale_text(g->scale_b));
    add_if(w, has(w, TRP__MATMUL_SCALE_D), "scale_d");
    add_if(w, has(w, TRP__MATMUL_SCALE_AUX), "scale_aux");
    add_if(w, has(w, TRP__MATMUL_OUT_SCALE), "scale_out");
    add_if(w, has(w, TRP__MATMUL_AMAX_D), "amax");
    add_if(w, has(w, TRP__MATMUL_AMAX_AUX), "amax_aux");
}

void trp__matmul_problem_text(const trp__matmul *problem, char *text, size_t size)
{
    static const char letters[] = {[TRP_N] = 'n', [TRP_T] = 't', [TRP_C] = 'c'};
    const trp__matmul *g = problem;
    words w = {.text = {.out = text, .size = size}, .g = g};
    trp__text_add(&w.text, "%" PRId64 " %" PRId64 " %" PRId64, g->m, g->n, g->k);
    add_types(&w);
    if (g->trans_a != TRP_N || g->trans_b != TRP_N)
        trp__text_add(&w.text, " trans=%c%c", letters[g->trans_a % 3], letters[g->trans_b % 3]);
    if (g->batch != 1)
        trp__text_add(&w.text, " batch=%" PRId64, g->batch);
    add_epilogue(&w);
    if (has(&w, TRP__MATMUL_C))
        add_if(&w, true,
               g->access[TRP__MATMUL_C] == g->access[TRP__MATMUL_D] ? "add=d" : "add=apart");
    add_scales(&w);
    add_if(&w, has(&w, TRP__MATMUL_SCALARS), "scalars");
    add_if(&w, has(&w, TRP__MATMUL_ALPHAS), "alphas");
    add_if(&w, g->compute == TRP_COMPUTE_TF32, "tf32");
    add_if(&w, g->compute == TRP_COMPUTE_PEDANTIC, "pedantic");
    add_if(&w, g->fast_accumulation, "fast");
    if (g->sm_count > 0)
        trp__text_add(&w.text, " sm_count=%u", (unsigned)g->sm_count);
}

/* Keys. */

/* Adds settings that people may want to read. The key also contains the whole problem as bytes. */
static void add_layout(trp__key *key, const trp__matmul_key *problem)
{
    static const char *const names[] = {"a", "b", "c", "d", "aux", "vector"};
    const trp__matmul *g = &problem->problem;
    for (int i = 0; i < TRP__MATMUL_ALIGNED; i++) {
        char text[160];
        trp__text out = {.out = text, .size = sizeof text};
        if (!trp__matmul_has(g, i))
            continue;
        trp__text_add(&out, "aligned to %d", 1 << (problem->alignment[i] & 15));
        if (i < TRP__MATMUL_MATRICES)
            trp__text_add(&out, ", leading dimension %" PRId64, g->ld[i]);
        if (g->batch != 1)
            trp__text_add(&out, ", stride %" PRId64,
                          i < TRP__MATMUL_MATRICES ? g->stride[i] : g->vector_stride);
        trp__tuning_key_setting(key, names[i], text);
    }
}

void trp__matmul_record_key(const trp__tuning_site *site, const trp__matmul_key *problem,
                            trp__key *key)
{
    char text[256];
    trp__matmul_key whole = *problem;
    whole.problem.tune = TRP_TUNE_OFF;
    trp__matmul_problem_text(&whole.problem, text, sizeof text);
    trp__tuning_key_begin(key, TRP__KIND_MATMUL_TUNING, site, text, "algorithm", "record",
                          TRP__TUNING_VERSION);
    snprintf(text, sizeof text, "%" PRIu64, whole.problem.workspace);
    trp__tuning_key_setting(key, "workspace", text);
    add_layout(key, &whole);
    trp__key_add(key, TRP__KEY_INPUT, &whole, sizeof whole);
}

/* Records. */

enum { AT_WORKSPACE = TRP__TUNING_HEAD, AT_ALGO = AT_WORKSPACE + 8 };

enum { ALGO_WORDS = sizeof((trp__cublaslt_algo *)0)->data / sizeof(uint64_t) };

_Static_assert(AT_ALGO + ALGO_WORDS * 8 == TRP__MATMUL_RECORD_BYTES, "as documented");

void trp__matmul_record_write(const trp__matmul_record *record,
                              unsigned char bytes[TRP__MATMUL_RECORD_BYTES])
{
    trp__tuning_write(&record->result, bytes);
    trp__put64(bytes + AT_WORKSPACE, record->workspace);
    for (int i = 0; i < ALGO_WORDS; i++)
        trp__put64(bytes + AT_ALGO + 8 * i, record->algo.data[i]);
}

bool trp__matmul_record_read(const unsigned char bytes[TRP__MATMUL_RECORD_BYTES],
                             trp__matmul_record *out)
{
    out->workspace = trp__get64(bytes + AT_WORKSPACE);
    for (int i = 0; i < ALGO_WORDS; i++)
        out->algo.data[i] = trp__get64(bytes + AT_ALGO + 8 * i);
    return trp__tuning_read(bytes, &out->result);
}

bool trp__matmul_record_find(trp__store *store, const trp__key *key, trp__matmul_record *out)
{
    unsigned char bytes[TRP__MATMUL_RECORD_BYTES];
    trp__matmul_record found;
    if (!trp__tuning_find(store, key, bytes, sizeof bytes) ||
        !trp__matmul_record_read(bytes, &found))
        return false;
    *out = found;
    return true;
}

void trp__matmul_record_keep(trp__store *store, const trp__key *key,
                             const trp__matmul_record *record)
{
    unsigned char bytes[TRP__MATMUL_RECORD_BYTES];
    trp__matmul_record_write(record, bytes);
    trp__tuning_keep(store, key, bytes, sizeof bytes);
}
