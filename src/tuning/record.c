#include "tuning/record.h"

#include "base/bytes.h"
#include "base/numbers/half.h"
#include "driver/cuda.h"
#include "driver/device_memory.h"

#include <troupe/matmul.h>

#include <stdio.h>
#include <string.h>

enum { AT_LEVEL = 4, AT_DEFAULT = 8, AT_BEST = 12, AT_COUNT = 16 };

void trp__tuning_site_set(trp__tuning_site *site, const char *gpu, uint32_t processors,
                          uint32_t compute, int driver)
{
    snprintf(site->gpu, sizeof site->gpu, "%s, %u multiprocessors", gpu, processors);
    snprintf(site->target, sizeof site->target, "sm_%u", compute);
    snprintf(site->driver, sizeof site->driver, "for CUDA %d.%d", driver / 1000,
             driver % 1000 / 10);
}

trp_status trp__tuning_site_of(trp__tuning_site *site, uint32_t ordinal, trp_error *error)
{
    const trp__cuda *cu;
    trp__cuda_device_info info;
    int driver = 0;
    trp_status status = trp__cuda_load(&cu, error);
    if (status == TRP_OK)
        status = trp__cuda_device_describe(ordinal, &info, error);
    if (status != TRP_OK)
        return status;
    const trp__cu_result result = cu->cuDriverGetVersion(&driver);
    if (result != TRP__CU_SUCCESS)
        return trp__cuda_error(error, result, "cuDriverGetVersion");
    trp__tuning_site_set(site, info.name, info.processors,
                         10 * info.compute_major + info.compute_minor, driver);
    return TRP_OK;
}

void trp__tuning_key_setting(trp__key *key, const char *name, const char *value)
{
    char text[320];
    snprintf(text, sizeof text, "%s=%s", name, value);
    trp__key_add_text(key, TRP__KEY_SETTING, text);
}

void trp__tuning_key_begin(trp__key *key, const char *kind, const trp__tuning_site *site,
                           const char *name, const char *output, const char *format,
                           uint32_t version)
{
    char number[16];
    snprintf(number, sizeof number, "%u", version);
    *key = (trp__key){0};
    trp__key_begin(key, kind);
    trp__key_add_text(key, TRP__KEY_NAME, name);
    trp__key_add_text(key, TRP__KEY_COMPILER, site->library);
    trp__key_add_text(key, TRP__KEY_TARGET, site->target);
    trp__key_add_text(key, TRP__KEY_OUTPUT, output);
    trp__tuning_key_setting(key, "gpu", site->gpu);
    trp__tuning_key_setting(key, "driver", site->driver);
    trp__tuning_key_setting(key, format, number);
}

void trp__tuning_write(const trp__tuning_result *result, unsigned char bytes[TRP__TUNING_HEAD])
{
    memset(bytes, 0, TRP__TUNING_HEAD);
    trp__put32(bytes, TRP__TUNING_VERSION);
    trp__put32(bytes + AT_LEVEL, result->level);
    trp__put32(bytes + AT_DEFAULT, trp__f32_bits(result->default_us));
    trp__put32(bytes + AT_BEST, trp__f32_bits(result->best_us));
    trp__put32(bytes + AT_COUNT, result->candidates);
}

bool trp__tuning_read(const unsigned char bytes[TRP__TUNING_HEAD], trp__tuning_result *out)
{
    *out = (trp__tuning_result){.level = trp__get32(bytes + AT_LEVEL),
                                .candidates = trp__get32(bytes + AT_COUNT),
                                .default_us = trp__f32_from_bits(trp__get32(bytes + AT_DEFAULT)),
                                .best_us = trp__f32_from_bits(trp__get32(bytes + AT_BEST))};
    return trp__get32(bytes) == TRP__TUNING_VERSION &&
           (out->level == TRP_TUNE_QUICK || out->level == TRP_TUNE_FULL);
}

bool trp__tuning_find(trp__store *store, const trp__key *key, unsigned char *out, size_t size)
{
    trp__store_hit hit = {0};
    bool found = store &&
                 trp__store_find(store, &(trp__store_request){.key = key}, &hit) == TRP_OK &&
                 hit.bytes == size;
    if (found)
        memcpy(out, hit.payload, size);
    trp__store_hit_end(&hit);
    return found;
}

void trp__tuning_keep(trp__store *store, const trp__key *key, const unsigned char *bytes,
                      size_t size)
{
    trp_error ignored;
    if (store)
        (void)trp__store_put(store, &(trp__store_request){.key = key},
                             &(trp__store_entry){.payload = bytes, .bytes = size}, &ignored);
}
