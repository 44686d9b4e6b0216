/* Records of searches among kernels: their bytes, and keys in which everything counts that the
 * choice of a kernel depends on. */
#include "actors/cutlass/plan/record.h"
#include "support/folder.h"
#include "support/label.h"

#include "support/unit.h"

TROUPE_TEST("no tsan");

static const trp__tuning_site site = {.gpu = "NVIDIA X1, 100 multiprocessors",
                                      .target = "sm_90",
                                      .driver = "for CUDA 13.0",
                                      .library = "templates of Troupe 0.1.0, ABI 1"};

static const trp__cutlass_record some = {
    .result = {.level = TRP_TUNE_FULL, .candidates = 40, .default_us = 1.5f, .best_us = 0.25f},
    .settings = {8, 2, 4, 2, 1},
    .kernel = "s90_half_128x256x64_2x1_streamk"};

static const trp__cutlass_problem product = {.m = 64,
                                             .n = 48,
                                             .k = 80,
                                             .batch = 1,
                                             .a = TRP_BF16,
                                             .b = TRP_BF16,
                                             .d = TRP_BF16,
                                             .accumulator = TRP_F32,
                                             .a_row = true,
                                             .align = {16, 16, 16, 16, 16},
                                             .align_scales = 16};

static trp__cutlass_choice_key plain(void)
{
    return trp__cutlass_choice_key_of(&product, NULL);
}

static void bytes(void **state)
{
    (void)state;
    unsigned char b[TRP__CUTLASS_RECORD_BYTES];
    trp__cutlass_record r;
    trp__cutlass_record_write(&some, b);
    assert_true(trp__cutlass_record_read(b, &r));
    assert_memory_equal(&r.settings, &some.settings, sizeof r.settings);
    assert_string_equal(r.kernel, some.kernel);
    assert_int_equal(r.result.level, TRP_TUNE_FULL);
    assert_int_equal(r.result.candidates, 40);
    assert_true(r.result.default_us == 1.5f && r.result.best_us == 0.25f);
    assert_int_equal(b[0], 4);
    assert_int_equal(b[24], 8);
    assert_int_equal(b[44], 's');
}

static void no_records(void **state)
{
    (void)state;
    unsigned char b[TRP__CUTLASS_RECORD_BYTES];
    trp__cutlass_record r;
    trp__cutlass_record_write(&some, b);
    static const struct {
        size_t at;
        unsigned char value;
    } wrong[] = {{0, 1}, {3, 1}, {4, 0}, {4, 3}, {7, 1}, {TRP__CUTLASS_RECORD_BYTES - 1, 'x'}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        unsigned char before = b[wrong[i].at];
        b[wrong[i].at] = wrong[i].value;
        assert_false(trp__cutlass_record_read(b, &r));
        b[wrong[i].at] = before;
    }
    assert_true(trp__cutlass_record_read(b, &r));
}

static trp__hash hash_of(const trp__tuning_site *where, const trp__cutlass_choice_key *problem)
{
    trp__key key;
    trp__cutlass_record_key(where, problem, &key);
    assert_int_equal(key.status, TRP_OK);
    assert_true(trp__key_is_valid(key.bytes, key.length));
    trp__hash hash = trp__key_hash(&key);
    trp__key_end(&key);
    return hash;
}

static void check_differs(const trp__tuning_site *where, const trp__cutlass_choice_key *problem)
{
    const trp__cutlass_choice_key usual = plain();
    trp__hash x = hash_of(&site, &usual), y = hash_of(where, problem);
    assert_false(trp__hash_equal(&x, &y));
}

/* Each byte of a problem, the kernel's name, and where it was found. */
static void keys(void **state)
{
    (void)state;
    trp__tuning_site elsewhere = site;
    trp__cutlass_choice_key p = plain();
    trp__hash x = hash_of(&site, &p), y = hash_of(&site, &p);
    assert_true(trp__hash_equal(&x, &y));
    for (size_t i = 0; i < offsetof(trp__cutlass_choice_key, named); i++) {
        ((unsigned char *)&p)[i] ^= 1;
        check_differs(&site, &p);
        ((unsigned char *)&p)[i] ^= 1;
    }
    p.named = trp__cutlass_row_at(3);
    check_differs(&site, &p);
    p.named = NULL;
    elsewhere.gpu[0] = 'X';
    check_differs(&elsewhere, &p);
    elsewhere = site;
    elsewhere.driver[0] = 'X';
    check_differs(&elsewhere, &p);
    elsewhere = site;
    elsewhere.target[3] = '8';
    check_differs(&elsewhere, &p);
}

/* And all of a problem is in those bytes, but for what the place says. */
static void problems(void **state)
{
    (void)state;
    trp__cutlass_problem other[33 + TRP__CUTLASS_GEOMETRY];
    const uint32_t count = sizeof other / sizeof *other;
    for (uint32_t i = 0; i < count; i++)
        other[i] = product;
    other[0].operation = TRP__CUTLASS_GROUPED;
    other[1].m++;
    other[2].n++;
    other[3].k++;
    other[4].batch++;
    other[5].divides[0] = 8;
    other[6].divides[1] = 8;
    other[7].divides[2] = 8;
    other[8].a = TRP_F16;
    other[9].b = TRP_F16;
    other[10].c = TRP_BF16;
    other[11].d = TRP_F32;
    other[12].accumulator = TRP_F64;
    other[13].a_row = false;
    other[14].b_row = true;
    other[15].compute = TRP_COMPUTE_TF32;
    other[16].scale_a = TRP_SCALE_BLOCK_128;
    other[17].scale_b = TRP_SCALE_BLOCK_128;
    other[18].zeros = true;
    other[19].group = 128;
    other[20].fast = true;
    other[21].align[0] = 8;
    other[22].align[1] = 8;
    other[23].align[2] = 8;
    other[24].align[3] = 8;
    other[25].align[4] = 8;
    other[26].align_scales = 8;
    other[27].conv.operation = TRP_CONV_DGRAD;
    other[28].conv.dims = 3;
    other[29].conv.divided = true;
    other[30].conv.tma = true;
    other[31].conv.inner = 64;
    other[32].grouping = TRP_CUTLASS_GROUPS_OF_M;
    for (uint32_t i = 33; i < count; i++)
        other[i].conv.geometry[i - 33] = 1;
    for (uint32_t i = 0; i < count; i++) {
        const trp__cutlass_choice_key key = trp__cutlass_choice_key_of(&other[i], NULL);
        check_differs(&site, &key);
    }
}

/* Found by who makes the key, kept by who has its bytes. */
static void kept(void **state)
{
    (void)state;
    char folder[256];
    trp__store *store;
    trp_error error;
    trp__cutlass_record r;
    trp__key key;
    const trp__cutlass_choice_key p = plain();
    h_folder_make(folder, sizeof folder, "records");
    assert_int_equal(
        trp__store_open(&(trp__store_options){.folder = folder, .packs = ""}, &store, &error),
        TRP_OK);
    trp__cutlass_record_key(&site, &p, &key);
    assert_false(trp__cutlass_record_find(store, &key, &r));
    assert_false(trp__cutlass_record_find(NULL, &key, &r));
    trp__cutlass_record_keep(store, key.bytes, key.length - 1, &some); /* no key */
    assert_false(trp__cutlass_record_find(store, &key, &r));
    trp__cutlass_record_keep(NULL, key.bytes, key.length, &some);
    trp__cutlass_record_keep(store, key.bytes, key.length, &some);
    assert_true(trp__cutlass_record_find(store, &key, &r));
    assert_string_equal(r.kernel, some.kernel);
    trp__key_end(&key);
    trp__store_close(store);
    h_folder_remove(folder);
}

UNIT_MAIN(UNIT(bytes), UNIT(no_records), UNIT(keys), UNIT(problems), UNIT(kept))
