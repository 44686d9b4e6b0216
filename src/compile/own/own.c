#include "compile/own/own.h"

#include "base/embedded.h"
#include "base/error.h"
#include "base/os/clock.h"
#include "cache/pack.h"
#include "compile/make.h"
#include "libs/nvrtc/nvrtc.h"

#include <troupe/jit.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No contraction of products and sums: a graph gives the same bits whichever kernels run it. */
static const char *const options[] = {"-default-device", "-std=c++17", "-fmad=false"};

/* Replacements for C headers, which the machine may not have: as much as the kernels need. */
static const trp__embedded standard[] = {
    {"stdint.h", "#pragma once\n"
                 "typedef signed char int8_t;\ntypedef unsigned char uint8_t;\n"
                 "typedef short int16_t;\ntypedef unsigned short uint16_t;\n"
                 "typedef int int32_t;\ntypedef unsigned uint32_t;\n"
                 "typedef long int64_t;\ntypedef unsigned long uint64_t;\n"
                 "typedef long intptr_t;\ntypedef unsigned long uintptr_t;\n"
                 "#define INT8_MIN (-128)\n#define INT8_MAX 127\n#define UINT8_MAX 255\n"
                 "#define INT32_MIN (-2147483647 - 1)\n#define INT32_MAX 2147483647\n"
                 "#define INT64_MAX 9223372036854775807l\n"
                 "#define UINT32_MAX 4294967295u\n#define UINT64_MAX 18446744073709551615ul\n"
                 "#define UINT32_C(x) x##u\n#define INT64_C(x) x##l\n#define UINT64_C(x) x##ul\n"},
    {"stddef.h", "#define offsetof(type, member) __builtin_offsetof(type, member)\n"},
    {"stdbool.h", ""},
    {"string.h", ""},
    {"math.h", "#define INFINITY ((double)__int_as_float(0x7f800000))\n"
               "#define NAN ((double)__int_as_float(0x7fffffff))\n"},
    {0},
};

enum { TEXTS_MAX = 64, SOURCE_BYTES = 192 };

/* A process that holds the claim for longer is probably stopped. */
#define PATIENCE_NS (120 * TRP__SECOND)

/* Everything that a compile reads. */
typedef struct texts {
    const trp__own_program *program;
    const char *source;
    char made[SOURCE_BYTES]; /* generated source of a program that is one file */
    const char *name[TEXTS_MAX], *text[TEXTS_MAX];
    int count;
} texts;

/* Collecting the files of a program. */

static const trp__embedded *find_text(const char *name, size_t length)
{
    enum { LISTS = 2 };
    static const trp__embedded *const lists[LISTS] = {standard, trp__kernel_texts};
    for (size_t l = 0; l < LISTS; l++) {
        for (const trp__embedded *e = lists[l]; e->name; e++) {
            if (strlen(e->name) == length && memcmp(e->name, name, length) == 0)
                return e;
        }
    }
    return NULL;
}

static void add_included(texts *t, const char *text);

/* Adds a file and its includes. One that is not embedded is left to the compiler, which reports
 * it. */
static void add_file(texts *t, const char *name, size_t length)
{
    const trp__embedded *e = find_text(name, length);
    for (int i = 0; e && i < t->count; i++) {
        if (t->name[i] == e->name)
            return;
    }
    if (!e || t->count == TEXTS_MAX)
        return;
    t->name[t->count] = e->name;
    t->text[t->count++] = e->text;
    add_included(t, e->text);
}

/* Adds every file that a text includes. */
static void add_included(texts *t, const char *text)
{
    static const char include[] = "#include ";
    for (const char *line = text; *line;) {
        if (strncmp(line, include, sizeof include - 1) == 0) {
            const char *inner = line + sizeof include; /* past the quotation mark */
            add_file(t, inner, strcspn(inner, "\">\n"));
        }
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
}

static void collect(const trp__own_program *program, texts *t)
{
    *t = (texts){.program = program, .source = program->source};
    if (program->file) {
        snprintf(t->made, sizeof t->made, "#define _Static_assert static_assert\n#include \"%s\"\n",
                 program->file);
        t->source = t->made;
    }
    add_included(t, t->source);
}

/* Compiling. */

static bool is_stopped(void *context)
{
    const atomic_bool *stop = context;
    return stop && atomic_load(stop);
}

static int flow(void *context, void *ignored)
{
    (void)ignored;
    return is_stopped(context);
}

/* Compiles. TRP_E_CANCELLED: `stop` became true, which NVRTC polls where it can. */
static trp_status compile(const texts *t, const char *target, const atomic_bool *stop, void **image,
                          size_t *bytes, trp_error *error)
{
    enum { OPTIONS = sizeof options / sizeof *options };
    char arch[32], name[64];
    const char *all[OPTIONS + 1] = {arch};
    const trp__nvrtc *rtc;
    trp__nvrtc_program program = NULL;
    trp__jit_made made = {0};
    trp_status status = trp__nvrtc_load(&rtc, error);
    if (status != TRP_OK)
        return status;
    snprintf(arch, sizeof arch, "-arch=%s%s", target,
             t->program->only_here && strcmp(target, "sm_90") == 0 ? "a" : "");
    snprintf(name, sizeof name, "trp_%s_%s.cu", t->program->actor, t->program->name);
    memcpy(all + 1, options, sizeof options);
    trp__nvrtc_result result =
        rtc->nvrtcCreateProgram(&program, t->source, name, t->count, t->text, t->name);
    if (result != TRP__NVRTC_SUCCESS)
        return trp__jit_nvrtc_failed(rtc, result, "nvrtcCreateProgram", "", error);
    if (stop && rtc->nvrtcSetFlowCallback)
        rtc->nvrtcSetFlowCallback(program, flow, (void *)(uintptr_t)stop);
    result = rtc->nvrtcCompileProgram(program, OPTIONS + 1, all);
    if (result == TRP__NVRTC_SUCCESS) {
        status = trp__jit_read_image(rtc, program, TRP_JIT_CUBIN, &made, error);
    } else if (is_stopped((void *)(uintptr_t)stop)) {
        status = trp__error_set(error, TRP_E_CANCELLED, "%s: the compile was called off",
                                t->program->name);
    } else {
        (void)trp__jit_read_log(rtc, program, &made, NULL);
        status = trp__jit_nvrtc_failed(rtc, result, "nvrtcCompileProgram", made.log, error);
    }
    rtc->nvrtcDestroyProgram(&program);
    if (status == TRP_OK) {
        *image = made.image;
        *bytes = made.image_bytes;
        made.image = NULL;
    }
    trp__jit_made_free(&made);
    return status;
}

/* The key leaves the compiler out: an image of any compiler serves, so packs work without one. */
static void make_key(const texts *t, const char *target, trp__key *key)
{
    char kind[32], name[64];
    *key = (trp__key){0};
    snprintf(kind, sizeof kind, "%s kernels", t->program->actor);
    snprintf(name, sizeof name, "kernels of the %s actor", t->program->actor);
    trp__key_begin(key, kind);
    trp__key_add_text(key, TRP__KEY_NAME, name);
    trp__key_add_text(key, TRP__KEY_SOURCE, t->source);
    trp__key_add_text(key, TRP__KEY_TARGET, target);
    trp__key_add_text(key, TRP__KEY_OUTPUT, "cubin");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        trp__key_add_text(key, TRP__KEY_OPTION, options[i]);
    for (int i = 0; i < t->count; i++)
        trp__key_add_text(key, TRP__KEY_INPUT, t->text[i]);
}

static bool copy_hit(const trp__store_hit *hit, void **image, size_t *bytes)
{
    *image = hit->bytes > 0 ? malloc(hit->bytes) : NULL;
    *bytes = hit->bytes;
    if (*image)
        memcpy(*image, hit->payload, hit->bytes);
    return *image != NULL;
}

trp_status trp__own_image(trp__store *store, const char *target, const trp__own_program *program,
                          const atomic_bool *stop, void **image, size_t *bytes, trp_error *error)
{
    const trp__store_wait wait = {.deadline_ns = trp__deadline(PATIENCE_NS),
                                  .is_cancelled = is_stopped,
                                  .context = (void *)(uintptr_t)stop};
    texts t;
    trp__key key;
    trp__store_hit hit = {0};
    trp__store_claim *claim = NULL;
    trp_error ignored; /* a compile without a claim does no harm */
    trp_status status = TRP_E_MISSING;
    collect(program, &t);
    make_key(&t, target, &key);
    const trp__store_request request = {.key = &key};
    *image = NULL;
    if (store)
        status = trp__store_claim_or_find(store, &request, &wait, &hit, &claim, &ignored);
    if (status == TRP_E_CANCELLED) {
        trp__error_set(error, status, "%s: the compile was called off", program->name);
    } else if (status != TRP_OK || !copy_hit(&hit, image, bytes)) {
        status = compile(&t, target, stop, image, bytes, error);
        if (status == TRP_OK && store)
            (void)trp__store_put(store, &request,
                                 &(trp__store_entry){.payload = *image, .bytes = *bytes}, &ignored);
    }
    trp__store_hit_end(&hit);
    trp__store_claim_end(claim);
    trp__key_end(&key);
    return status;
}

bool trp__own_image_find(trp__store *store, const char *target, const trp__own_program *program,
                         void **image, size_t *bytes)
{
    texts t;
    trp__key key;
    trp__store_hit hit = {0};
    bool found = false;
    if (!store)
        return false;
    collect(program, &t);
    make_key(&t, target, &key);
    if (trp__store_find(store, &(trp__store_request){.key = &key}, &hit) == TRP_OK)
        found = copy_hit(&hit, image, bytes);
    trp__store_hit_end(&hit);
    trp__key_end(&key);
    return found;
}

trp_status trp__own_image_pack(struct trp__cache_pack_writer *writer, const char *target,
                               const trp__own_program *program, size_t *bytes, trp_error *error)
{
    texts t;
    trp__key key;
    void *image = NULL;
    collect(program, &t);
    trp_status status = compile(&t, target, NULL, &image, bytes, error);
    if (status != TRP_OK)
        return status;
    make_key(&t, target, &key);
    status = trp__cache_pack_add(writer, &(trp__store_request){.key = &key},
                                 &(trp__store_entry){.payload = image, .bytes = *bytes}, error);
    trp__key_end(&key);
    free(image);
    return status;
}
