#include "actors/cutlass/plan/record.h"

#include "base/bytes.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* For people: the bytes of the problem say it, too. */
static const char *operation_of(const trp__cutlass_choice_key *p)
{
    static const char *const passes[] = {" fprop", " dgrad", " wgrad"};
    return p->operation == TRP__CUTLASS_GROUPED ? " grouped"
           : p->operation != TRP__CUTLASS_CONV  ? ""
           : p->conv <= TRP_CONV_WGRAD          ? passes[p->conv]
                                                : " conv";
}

void trp__cutlass_record_key(const trp__tuning_site *site, const trp__cutlass_choice_key *problem,
                             trp__key *key)
{
    const trp__cutlass_choice_key *p = problem;
    char name[160];
    snprintf(name, sizeof name, "%lld %lld %lld %s type_d=%s batch=%lld%s", (long long)p->m,
             (long long)p->n, (long long)p->k, trp_dtype_name((trp_dtype)p->a),
             trp_dtype_name((trp_dtype)p->d), (long long)p->batch, operation_of(p));
    trp__tuning_key_begin(key, TRP__KIND_CUTLASS_TUNING, site, name, "kernel", "record",
                          TRP__TUNING_VERSION);
    trp__tuning_key_setting(key, "kernel", p->named ? p->named->name : "any");
    trp__key_add(key, TRP__KEY_INPUT, p, offsetof(trp__cutlass_choice_key, named));
}

enum { AT_SETTINGS = TRP__TUNING_HEAD, AT_KERNEL = AT_SETTINGS + 20 };

_Static_assert(AT_SETTINGS + sizeof(trp__cutlass_settings) == AT_KERNEL &&
                   AT_KERNEL + TRP_CUTLASS_NAME_SIZE == TRP__CUTLASS_RECORD_BYTES,
               "as documented");

void trp__cutlass_record_write(const trp__cutlass_record *record,
                               unsigned char bytes[TRP__CUTLASS_RECORD_BYTES])
{
    const trp__cutlass_settings *s = &record->settings;
    const int32_t settings[] = {s->swizzle, s->raster, s->splits, s->stream_k, s->reduction};
    memset(bytes, 0, TRP__CUTLASS_RECORD_BYTES);
    trp__tuning_write(&record->result, bytes);
    for (int i = 0; i < 5; i++)
        trp__put32(bytes + AT_SETTINGS + 4 * i, (uint32_t)settings[i]);
    memcpy(bytes + AT_KERNEL, record->kernel, strnlen(record->kernel, TRP_CUTLASS_NAME_SIZE - 1));
}

bool trp__cutlass_record_read(const unsigned char bytes[TRP__CUTLASS_RECORD_BYTES],
                              trp__cutlass_record *out)
{
    int32_t settings[5];
    for (int i = 0; i < 5; i++)
        settings[i] = (int32_t)trp__get32(bytes + AT_SETTINGS + 4 * i);
    out->settings =
        (trp__cutlass_settings){settings[0], settings[1], settings[2], settings[3], settings[4]};
    memcpy(out->kernel, bytes + AT_KERNEL, sizeof out->kernel);
    return trp__tuning_read(bytes, &out->result) && out->kernel[sizeof out->kernel - 1] == '\0';
}

bool trp__cutlass_record_find(trp__store *store, const trp__key *key, trp__cutlass_record *out)
{
    unsigned char bytes[TRP__CUTLASS_RECORD_BYTES];
    return trp__tuning_find(store, key, bytes, sizeof bytes) &&
           trp__cutlass_record_read(bytes, out);
}

void trp__cutlass_record_keep(trp__store *store, const void *key_bytes, size_t length,
                              const trp__cutlass_record *record)
{
    unsigned char bytes[TRP__CUTLASS_RECORD_BYTES];
    trp__key key = {0};
    trp__key_field field;
    if (!store || !trp__key_is_valid(key_bytes, length))
        return;
    trp__key_begin(&key, TRP__KIND_CUTLASS_TUNING);
    for (size_t at = 0; trp__key_next(key_bytes, length, &at, &field);) {
        if (field.tag != TRP__KEY_FORMAT && field.tag != TRP__KEY_KIND)
            trp__key_add(&key, (trp__key_tag)field.tag, field.content, field.bytes);
    }
    trp__cutlass_record_write(record, bytes);
    trp__tuning_keep(store, &key, bytes, sizeof bytes);
    trp__key_end(&key);
}
