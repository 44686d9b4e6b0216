/* Records of searches: their bytes, and keys in which everything counts that an algorithm depends
 * on, in words that people can read. */
#include "cache/inspect.h"
#include "matrix/record.h"
#include "support/folder.h"
#include "support/label.h"

#include <troupe/matmul.h>

#include "support/unit.h"

#include <limits.h>

TROUPE_TEST("no tsan");

static const trp__tuning_site site = {.gpu = "NVIDIA X1, 100 multiprocessors",
                                      .target = "sm_90",
                                      .driver = "for CUDA 13.0",
                                      .library = "cuBLASLt 13.1.0"};

/* A of 64 x 80, B of 80 x 48, plain. */
static trp__matmul_key plain(void)
{
    trp__matmul_key key = {.alignment = {8, 8, 0, 8, 0, 0}};
    trp__matmul *g = &key.problem;
    memset(g->access, TRP__MATMUL_NO_ACCESS, sizeof g->access);
    g->access[TRP__MATMUL_A] = 0;
    g->access[TRP__MATMUL_B] = 1;
    g->access[TRP__MATMUL_D] = 2;
    g->type[TRP__MATMUL_A] = g->type[TRP__MATMUL_B] = TRP_BF16;
    g->type[TRP__MATMUL_C] = g->type[TRP__MATMUL_D] = TRP_BF16;
    g->m = 64;
    g->n = 48;
    g->k = 80;
    g->batch = 1;
    g->ld[TRP__MATMUL_A] = g->ld[TRP__MATMUL_D] = 64;
    g->ld[TRP__MATMUL_B] = 80;
    g->workspace = 1 << 25;
    return key;
}

/* --- bytes --- */

static trp__matmul_record some_record(void)
{
    trp__matmul_record r = {
        .workspace = UINT64_C(0x0102030405060708),
        .result = {
            .level = TRP_TUNE_FULL, .default_us = 1.5f, .best_us = 0.25f, .candidates = 300}};
    for (unsigned i = 0; i < 8; i++)
        r.algo.data[i] = UINT64_C(0x1112131415161700) + i;
    return r;
}

static void as_documented(void **state)
{
    (void)state;
    static const unsigned char begin[48] = {
        4,  0,    0,    0,                            /* version */
        2,  0,    0,    0,                            /* full */
        0,  0,    0xc0, 0x3f, 0,    0,    0x80, 0x3e, /* times */
        44, 1,    0,    0,    0,    0,    0,    0,    /* how many, and nothing */
        8,  7,    6,    5,    4,    3,    2,    1,    /* workspace */
        0,  0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 1, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11};
    unsigned char bytes[TRP__MATMUL_RECORD_BYTES];
    trp__matmul_record r = some_record(), got;
    trp__matmul_record_write(&r, bytes);
    assert_memory_equal(bytes, begin, sizeof begin);
    assert_true(trp__matmul_record_read(bytes, &got));
    assert_memory_equal(&got.algo, &r.algo, sizeof r.algo);
    assert_true(got.workspace == r.workspace && got.result.default_us == 1.5f &&
                got.result.best_us == 0.25f);
    assert_true(got.result.candidates == 300 && got.result.level == TRP_TUNE_FULL);
}

static void no_records(void **state)
{
    (void)state;
    unsigned char bytes[TRP__MATMUL_RECORD_BYTES];
    trp__matmul_record r = some_record(), got;
    trp__matmul_record_write(&r, bytes);
    for (int at = 0; at < 8; at++) { /* another version; a search that is neither */
        unsigned char before = bytes[at];
        bytes[at] = 9;
        assert_false(trp__matmul_record_read(bytes, &got));
        bytes[at] = before;
    }
    assert_true(trp__matmul_record_read(bytes, &got));
}

/* --- names --- */

static void require_text(const trp__matmul *g, const char *wanted)
{
    char text[256], cut[8];
    trp__matmul_problem_text(g, text, sizeof text);
    assert_string_equal(text, wanted);
    trp__matmul_problem_text(g, cut, sizeof cut);
    assert_memory_equal(cut, wanted, sizeof cut - 1);
}

static void names(void **state)
{
    (void)state;
    trp__matmul_key key = plain();
    trp__matmul *g = &key.problem;
    require_text(g, "64 48 80 type=bf16");
    g->trans_a = TRP_T;
    g->batch = 7;
    g->activation = TRP_ACTIVATION_GELU;
    g->access[TRP__MATMUL_VECTOR] = g->access[TRP__MATMUL_AUX] = 3;
    g->vector_type = g->type[TRP__MATMUL_AUX] = TRP_BF16;
    require_text(g, "64 48 80 type=bf16 trans=tn batch=7 epilogue=bias+gelu+aux");
    g->activation = TRP_ACTIVATION_DRELU;
    g->gradient = TRP_BIAS_GRADIENT_D;
    g->type[TRP__MATMUL_AUX] = TRP_DTYPE_NONE; /* bits */
    g->vector_type = TRP_F32;
    require_text(g, "64 48 80 type=bf16 type_vector=f32 trans=tn batch=7 epilogue=drelu+sums_d");

    key = plain();
    g->type[TRP__MATMUL_A] = TRP_F8E4M3;
    g->type[TRP__MATMUL_B] = TRP_F8E5M2;
    g->type[TRP__MATMUL_C] = TRP_F32;
    g->access[TRP__MATMUL_C] = 4;
    g->access[TRP__MATMUL_SCALE_A] = g->access[TRP__MATMUL_SCALE_B] = 5;
    g->access[TRP__MATMUL_SCALE_D] = g->access[TRP__MATMUL_AMAX_D] = 6;
    g->fast_accumulation = 1;
    require_text(g, "64 48 80 type=f8e4m3 type_b=f8e5m2 type_c=f32 type_d=bf16 add=apart "
                    "scale=tensor scale_d amax fast");
    g->scale_a = TRP_SCALE_BLOCK_128;
    g->scale_b = TRP_SCALE_BLOCK_128X128;
    g->access[TRP__MATMUL_C] = g->access[TRP__MATMUL_D];
    g->access[TRP__MATMUL_SCALARS] = 7;
    g->fast_accumulation = 0;
    g->compute = TRP_COMPUTE_PEDANTIC;
    g->sm_count = 100;
    require_text(g, "64 48 80 type=f8e4m3 type_b=f8e5m2 type_c=f32 type_d=bf16 add=d "
                    "scale_a=block_128 scale_b=block_128x128 scale_d amax scalars pedantic "
                    "sm_count=100");
    g->access[TRP__MATMUL_SCALARS] = TRP__MATMUL_NO_ACCESS;
    g->access[TRP__MATMUL_ALPHAS] = 7;
    g->sm_count = 0;
    require_text(g, "64 48 80 type=f8e4m3 type_b=f8e5m2 type_c=f32 type_d=bf16 add=d "
                    "scale_a=block_128 scale_b=block_128x128 scale_d amax alphas pedantic");
}

/* Whatever a problem says, the name of it is some text. */
static void any_bytes(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte += 5) {
        char text[256];
        trp__matmul g;
        memset(&g, byte, sizeof g);
        trp__matmul_problem_text(&g, text, sizeof text);
        assert_true(strlen(text) > 4);
    }
}

/* --- keys --- */

static trp__hash hash_of(const trp__tuning_site *where, const trp__matmul_key *problem)
{
    trp__key key;
    trp__matmul_record_key(where, problem, &key);
    assert_int_equal(key.status, TRP_OK);
    assert_true(trp__key_is_valid(key.bytes, key.length));
    trp__hash hash = trp__key_hash(&key);
    trp__key_end(&key);
    return hash;
}

static bool same(const trp__hash *a, trp__hash b)
{
    return trp__hash_equal(a, &b);
}

static void what_counts(void **state)
{
    (void)state;
    const trp__matmul_key problem = plain();
    const trp__hash hash = hash_of(&site, &problem);
    assert_true(same(&hash, hash_of(&site, &problem)));
    trp__tuning_site other = site;
    strcpy(other.gpu, "NVIDIA X1, 101 multiprocessors");
    assert_false(same(&hash, hash_of(&other, &problem)));
    other = site;
    strcpy(other.target, "sm_91");
    assert_false(same(&hash, hash_of(&other, &problem)));
    other = site;
    strcpy(other.driver, "for CUDA 13.1");
    assert_false(same(&hash, hash_of(&other, &problem)));
    other = site;
    strcpy(other.library, "cuBLASLt 13.1.1");
    assert_false(same(&hash, hash_of(&other, &problem)));
    /* Every byte of the problem, but whether to search. */
    for (size_t at = 0; at < sizeof problem; at++) {
        trp__matmul_key changed = problem;
        ((unsigned char *)&changed)[at] ^= 1;
        bool tune = at == offsetof(trp__matmul_key, problem.tune);
        assert_int_equal(same(&hash, hash_of(&site, &changed)), tune);
    }
}

/* explain says in what two records of the same name differ. */
static void explained(void **state)
{
    (void)state;
    trp__matmul_key first = plain(), second = plain();
    trp__tuning_site other = site;
    trp__key a, b;
    char text[1024];
    second.alignment[0] = 4;
    strcpy(other.driver, "for CUDA 13.2");
    trp__matmul_record_key(&site, &first, &a);
    trp__matmul_record_key(&other, &second, &b);
    trp__key_differences(a.bytes, a.length, b.bytes, b.length, true, text, sizeof text);
    assert_non_null(strstr(text, "setting: driver=for CUDA 13.0 is new"));
    assert_non_null(strstr(text, "setting: a=aligned to 16, leading dimension 64 is gone"));
    assert_non_null(strstr(text, "input: 200 bytes, "));
    trp__key_end(&a);
    trp__key_end(&b);
}

/* --- in a store --- */

static void kept(void **state)
{
    (void)state;
    char folder[PATH_MAX - 64], entries[PATH_MAX - 32], path[PATH_MAX];
    const trp__matmul_key problem = plain();
    trp__store *store;
    trp__key key;
    trp__matmul_record r = some_record(), got;
    trp_error error;
    h_folder_make(folder, sizeof folder, "troupe-record");
    snprintf(entries, sizeof entries, "%s/store", folder);
    const trp__store_options options = {.folder = folder, .packs = ""};
    assert_int_equal(trp__store_open(&options, &store, &error), TRP_OK);
    trp__matmul_record_key(&site, &problem, &key);
    assert_false(trp__matmul_record_find(store, &key, &got));
    assert_false(trp__matmul_record_find(NULL, &key, &got));
    trp__matmul_record_keep(NULL, &key, &r);
    trp__matmul_record_keep(store, &key, &r);
    assert_true(trp__matmul_record_find(store, &key, &got));
    assert_int_equal(got.workspace, r.workspace);
    r.result.candidates = 4; /* another one takes its place */
    trp__matmul_record_keep(store, &key, &r);
    assert_true(trp__matmul_record_find(store, &key, &got));
    assert_int_equal(got.result.candidates, 4);

    /* Whatever byte is wrong: it is not there, or it is right. */
    assert_true(h_folder_find(entries, ".entry", path, sizeof path));
    for (long at = h_file_size(path) - 1; at >= 0; at--) {
        h_file_flip(path, at);
        assert_false(trp__matmul_record_find(store, &key, &got));
        h_file_flip(path, at);
    }
    assert_true(trp__matmul_record_find(store, &key, &got));
    trp__key_end(&key);
    trp__store_close(store);
    h_folder_remove(folder);
}

UNIT_MAIN(UNIT(as_documented), UNIT(no_records), UNIT(names), UNIT(any_bytes), UNIT(what_counts),
          UNIT(explained), UNIT(kept))
