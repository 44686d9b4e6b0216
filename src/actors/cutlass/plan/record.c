#include "actors/cutlass/plan/record.h"

#include "base/bytes.h"
#include "base/half.h"

#include <troupe/version.h>

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Of the payload, and of what the bytes of a problem mean. */
#define VERSION 2u

/* Keys. */

static void add_setting(trp__key *key, const char *name, const char *value)
{
    char text[320];
    snprintf(text, sizeof text, "%s=%s", name, value);
    trp__key_add_text(key, TRP__KEY_SETTING, text);
}

/* For people: the bytes of the problem say it, too. */
static const char *operation_of(const trp__cutlass_choice_key *p)
{
    static const char *const passes[] = {" fprop", " dgrad", " wgrad"};
    return p->operation == TRP__CUTLASS_GROUPED ? " grouped"
           : p->operation != TRP__CUTLASS_CONV  ? ""
           : p->conv <= TRP_CONV_WGRAD          ? passes[p->conv]
                                                : " conv";
}

void trp__cutlass_record_key(const trp__cutlass_site *site, const trp__cutlass_choice_key *problem,
                             trp__key *key)
{
    const trp__cutlass_choice_key *p = problem;
    char text[160];
    *key = (trp__key){0};
    trp__key_begin(key, TRP__KIND_CUTLASS_TUNING);
    snprintf(text, sizeof text, "%lld %lld %lld %s type_d=%s batch=%lld%s", (long long)p->m,
             (long long)p->n, (long long)p->k, trp_dtype_name((trp_dtype)p->a),
             trp_dtype_name((trp_dtype)p->d), (long long)p->batch, operation_of(p));
    trp__key_add_text(key, TRP__KEY_NAME, text);
    snprintf(text, sizeof text, "templates of Troupe %s, ABI %d", TRP_VERSION_STRING,
             TRP_CUTLASS_ABI);
    trp__key_add_text(key, TRP__KEY_COMPILER, text);
    trp__key_add_text(key, TRP__KEY_TARGET, site->target);
    trp__key_add_text(key, TRP__KEY_OUTPUT, "kernel");
    add_setting(key, "gpu", site->gpu);
    add_setting(key, "driver", site->driver);
    snprintf(text, sizeof text, "%u", VERSION);
    add_setting(key, "record", text);
    add_setting(key, "kernel", p->named ? p->named->name : "any");
    trp__key_add(key, TRP__KEY_INPUT, p, offsetof(trp__cutlass_choice_key, named));
}

/* Records. */

enum {
    AT_LEVEL = 4,
    AT_DEFAULT = 8,
    AT_BEST = 12,
    AT_COUNT = 16,
    AT_SETTINGS = 20,
    AT_KERNEL = 40,
};

_Static_assert(AT_SETTINGS + sizeof(trp__cutlass_settings) == AT_KERNEL &&
                   AT_KERNEL + TRP_CUTLASS_NAME_SIZE == TRP__CUTLASS_RECORD_BYTES,
               "as documented");

void trp__cutlass_record_write(const trp__cutlass_record *record,
                               unsigned char bytes[TRP__CUTLASS_RECORD_BYTES])
{
    const trp__cutlass_settings *s = &record->settings;
    const int32_t settings[] = {s->swizzle, s->raster, s->splits, s->stream_k, s->reduction};
    memset(bytes, 0, TRP__CUTLASS_RECORD_BYTES);
    trp__put32(bytes, VERSION);
    trp__put32(bytes + AT_LEVEL, record->level);
    trp__put32(bytes + AT_DEFAULT, trp__f32_bits(record->default_us));
    trp__put32(bytes + AT_BEST, trp__f32_bits(record->best_us));
    trp__put32(bytes + AT_COUNT, record->candidates);
    for (int i = 0; i < 5; i++)
        trp__put32(bytes + AT_SETTINGS + 4 * i, (uint32_t)settings[i]);
    memcpy(bytes + AT_KERNEL, record->kernel, strnlen(record->kernel, TRP_CUTLASS_NAME_SIZE - 1));
}

bool trp__cutlass_record_read(const void *bytes, size_t size, trp__cutlass_record *out)
{
    const unsigned char *b = bytes;
    int32_t settings[5];
    if (size != TRP__CUTLASS_RECORD_BYTES || trp__get32(b) != VERSION ||
        (trp__get32(b + AT_LEVEL) != TRP_TUNE_QUICK && trp__get32(b + AT_LEVEL) != TRP_TUNE_FULL) ||
        b[size - 1] != '\0')
        return false;
    for (int i = 0; i < 5; i++)
        settings[i] = (int32_t)trp__get32(b + AT_SETTINGS + 4 * i);
    *out = (trp__cutlass_record){
        .level = trp__get32(b + AT_LEVEL),
        .candidates = trp__get32(b + AT_COUNT),
        .default_us = trp__f32_from_bits(trp__get32(b + AT_DEFAULT)),
        .best_us = trp__f32_from_bits(trp__get32(b + AT_BEST)),
        .settings = {settings[0], settings[1], settings[2], settings[3], settings[4]}};
    memcpy(out->kernel, b + AT_KERNEL, sizeof out->kernel);
    return true;
}

bool trp__cutlass_record_find(trp__store *store, const trp__key *key, trp__cutlass_record *out)
{
    trp__store_hit hit = {0};
    bool found = store &&
                 trp__store_find(store, &(trp__store_request){.key = key}, &hit) == TRP_OK &&
                 trp__cutlass_record_read(hit.payload, hit.bytes, out);
    trp__store_hit_end(&hit);
    return found;
}

void trp__cutlass_record_keep(trp__store *store, const void *key_bytes, size_t length,
                              const trp__cutlass_record *record)
{
    unsigned char bytes[TRP__CUTLASS_RECORD_BYTES];
    trp__key key = {0};
    trp__key_field field;
    trp_error ignored; /* what can't be kept is found again by the next process */
    if (!store || !trp__key_is_valid(key_bytes, length))
        return;
    trp__key_begin(&key, TRP__KIND_CUTLASS_TUNING);
    for (size_t at = 0; trp__key_next(key_bytes, length, &at, &field);) {
        if (field.tag != TRP__KEY_FORMAT && field.tag != TRP__KEY_KIND)
            trp__key_add(&key, (trp__key_tag)field.tag, field.content, field.bytes);
    }
    trp__cutlass_record_write(record, bytes);
    (void)trp__store_put(store, &(trp__store_request){.key = &key},
                         &(trp__store_entry){.payload = bytes, .bytes = sizeof bytes}, &ignored);
    trp__key_end(&key);
}
