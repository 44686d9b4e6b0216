#include "matrix/record.h"

#include "base/bytes.h"
#include "base/half.h"
#include "base/text.h"

#include <troupe/matmul.h>

#include <inttypes.h>
#include <stdio.h>

/* Of the payload, and of what the bytes of a problem mean. It is part of the key, too: versions of
 * Troupe that differ in it don't replace each other's records. */
#define VERSION 1u

/* Text. */

typedef struct words {
    trp__text text;
    const trp__matmul *g;
} words;

static bool has(const words *w, int operand)
{
    return w->g->access[operand] != TRP__MATMUL_NO_ACCESS;
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
    bool derivative =
        g->activation == TRP_ACTIVATION_DRELU || g->activation == TRP_ACTIVATION_DGELU;
    const char *parts[] = {
        has(w, TRP__MATMUL_VECTOR) && !gradient ? "bias" : NULL,
        g->activation < sizeof activations / sizeof *activations ? activations[g->activation]
                                                                 : NULL,
        has(w, TRP__MATMUL_AUX) && !derivative ? "aux" : NULL, /* which a derivative reads */
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
    add_if(&w, g->compute == TRP_COMPUTE_TF32, "tf32");
    add_if(&w, g->compute == TRP_COMPUTE_PEDANTIC, "pedantic");
    add_if(&w, g->fast_accumulation, "fast");
}

/* Keys. */

static void add_setting(trp__key *key, const char *name, const char *value)
{
    char text[320];
    snprintf(text, sizeof text, "%s=%s", name, value);
    trp__key_add_text(key, TRP__KEY_SETTING, text);
}

/* What else of a problem people may want to see. The whole of it is in the key as bytes. */
static void add_layout(trp__key *key, const trp__matmul_key *problem)
{
    static const char *const names[] = {"a", "b", "c", "d", "aux", "vector"};
    static const uint8_t operands[] = {TRP__MATMUL_A, TRP__MATMUL_B,   TRP__MATMUL_C,
                                       TRP__MATMUL_D, TRP__MATMUL_AUX, TRP__MATMUL_VECTOR};
    const trp__matmul *g = &problem->problem;
    for (int i = 0; i < 6; i++) {
        char text[160], name[16];
        trp__text out = {.out = text, .size = sizeof text};
        if (g->access[operands[i]] == TRP__MATMUL_NO_ACCESS)
            continue;
        snprintf(name, sizeof name, "%s", names[i]);
        trp__text_add(&out, "aligned to %d", 1 << (problem->alignment[i] & 15));
        if (operands[i] < TRP__MATMUL_MATRICES)
            trp__text_add(&out, ", leading dimension %" PRId64, g->ld[operands[i]]);
        if (g->batch != 1)
            trp__text_add(&out, ", stride %" PRId64,
                          operands[i] < TRP__MATMUL_MATRICES ? g->stride[operands[i]]
                                                             : g->vector_stride);
        add_setting(key, name, text);
    }
}

void trp__matmul_record_key(const trp__matmul_site *site, const trp__matmul_key *problem,
                            trp__key *key)
{
    char text[256];
    trp__matmul_key whole = *problem;
    whole.problem.tune = TRP_TUNE_OFF;
    trp__matmul_problem_text(&whole.problem, text, sizeof text);
    *key = (trp__key){0};
    trp__key_begin(key, TRP__KIND_MATMUL_TUNING);
    trp__key_add_text(key, TRP__KEY_NAME, text);
    trp__key_add_text(key, TRP__KEY_COMPILER, site->library);
    trp__key_add_text(key, TRP__KEY_TARGET, site->target);
    trp__key_add_text(key, TRP__KEY_OUTPUT, "algorithm");
    add_setting(key, "gpu", site->gpu);
    add_setting(key, "driver", site->driver);
    snprintf(text, sizeof text, "%u", VERSION);
    add_setting(key, "record", text);
    snprintf(text, sizeof text, "%" PRIu64, whole.problem.workspace);
    add_setting(key, "workspace", text);
    add_layout(key, &whole);
    trp__key_add(key, TRP__KEY_INPUT, &whole, sizeof whole);
}

/* Records. */

enum { AT_FULL = 4, AT_WORKSPACE = 8, AT_DEFAULT = 16, AT_BEST = 20, AT_COUNT = 24, AT_ALGO = 32 };

enum { ALGO_WORDS = sizeof((trp__cublaslt_algo *)0)->data / sizeof(uint64_t) };

_Static_assert(AT_ALGO + ALGO_WORDS * 8 == TRP__MATMUL_RECORD_BYTES, "as documented");

void trp__matmul_record_write(const trp__matmul_record *record,
                              unsigned char bytes[TRP__MATMUL_RECORD_BYTES])
{
    memset(bytes, 0, TRP__MATMUL_RECORD_BYTES);
    trp__put32(bytes, VERSION);
    trp__put32(bytes + AT_FULL, record->full != 0);
    trp__put64(bytes + AT_WORKSPACE, record->workspace);
    trp__put32(bytes + AT_DEFAULT, trp__f32_bits(record->default_us));
    trp__put32(bytes + AT_BEST, trp__f32_bits(record->best_us));
    trp__put32(bytes + AT_COUNT, record->candidates);
    for (int i = 0; i < ALGO_WORDS; i++)
        trp__put64(bytes + AT_ALGO + 8 * i, record->algo.data[i]);
}

bool trp__matmul_record_read(const void *bytes, size_t size, trp__matmul_record *out)
{
    const unsigned char *b = bytes;
    if (size != TRP__MATMUL_RECORD_BYTES || trp__get32(b) != VERSION || trp__get32(b + AT_FULL) > 1)
        return false;
    *out = (trp__matmul_record){
        .workspace = trp__get64(b + AT_WORKSPACE),
        .default_us = trp__f32_from_bits(trp__get32(b + AT_DEFAULT)),
        .best_us = trp__f32_from_bits(trp__get32(b + AT_BEST)),
        .candidates = trp__get32(b + AT_COUNT),
        .full = trp__get32(b + AT_FULL),
    };
    for (int i = 0; i < ALGO_WORDS; i++)
        out->algo.data[i] = trp__get64(b + AT_ALGO + 8 * i);
    return true;
}

bool trp__matmul_record_find(trp__store *store, const trp__key *key, trp__matmul_record *out)
{
    trp__store_hit hit = {0};
    bool found = store &&
                 trp__store_find(store, &(trp__store_request){.key = key}, &hit) == TRP_OK &&
                 trp__matmul_record_read(hit.payload, hit.bytes, out);
    trp__store_hit_end(&hit);
    return found;
}

void trp__matmul_record_keep(trp__store *store, const trp__key *key,
                             const trp__matmul_record *record)
{
    unsigned char bytes[TRP__MATMUL_RECORD_BYTES];
    trp_error ignored; /* what can't be kept is found again by the next process */
    trp__matmul_record_write(record, bytes);
    if (store)
        (void)trp__store_put(store, &(trp__store_request){.key = key},
                             &(trp__store_entry){.payload = bytes, .bytes = sizeof bytes},
                             &ignored);
}
