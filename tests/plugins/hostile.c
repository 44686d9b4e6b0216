/* An actor that does what it should, and everything that it should not.
 * SPDX-License-Identifier: Apache-2.0 */
#include "hostile.h"

#include <troupe/worker.h>

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct state {
    unsigned char zero[64]; /* must be so before init() */
    uint32_t was_zero;
    uint32_t handled;
} state;

static _Atomic uint32_t inits, trims;
static char note_path[256];

static void note(const char *line)
{
    int fd = note_path[0] ? open(note_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    ssize_t written = write(fd, line, strlen(line));
    (void)written;
    close(fd);
}

__attribute__((destructor)) static void unload(void)
{
    note("unload\n");
}

/* Bad deeds. */

/* A sanitizer's handler would turn the death into something else. */
static void restore_default(int number)
{
    signal(number, SIG_DFL);
}

__attribute__((noinline, no_sanitize("address", "undefined", "thread"))) static void segv(void)
{
    volatile uintptr_t nowhere = 0x100;
    restore_default(SIGSEGV);
    *(volatile int *)nowhere = 1;
}

static void hang(void)
{
    for (;;)
        pause();
}

static void run_segv(void *unused)
{
    (void)unused;
    segv();
}

static void run_exit(void *unused)
{
    (void)unused;
    _exit(5);
}

static void run_hang(void *unused)
{
    (void)unused;
    hang();
}

static trp_status enqueue(trp_instance *instance, void (*run)(void *), trp_error *error)
{
    return instance->services->enqueue(instance, run, NULL, 0, error);
}

/* Life. */

static bool is(const char *config, const char *word)
{
    size_t length = strlen(word);
    return strncmp(config, word, length) == 0 && (config[length] == '\0' || config[length] == '@');
}

static trp_status misbehave(trp_instance *instance, trp_error *error)
{
    const char *c = instance->config;
    const char *from = strchr(c, '@');
    if (is(c, "late")) {
        if (from && instance->incarnation < strtoul(from + 1, NULL, 10))
            kill(getpid(), SIGKILL);
        usleep(300000);
        return TRP_OK;
    }
    if (from && instance->incarnation < strtoul(from + 1, NULL, 10))
        return TRP_OK;
    if (is(c, "segv"))
        segv();
    if (is(c, "abort")) {
        restore_default(SIGABRT);
        abort();
    }
    if (is(c, "exit"))
        _exit(5);
    if (is(c, "kill"))
        kill(getpid(), SIGKILL);
    if (is(c, "hang"))
        hang();
    if (is(c, "stream-segv"))
        return enqueue(instance, run_segv, error);
    if (is(c, "stream-hang"))
        return enqueue(instance, run_hang, error);
    if (is(c, "refuse"))
        return instance->services->fail(error, TRP_E_MISSING, "hostile", 42, "no %s today",
                                        "service");
    return is(c, "mute")    ? TRP_E_LIBRARY
           : is(c, "fault") ? TRP_E_FAULT
           : is(c, "again") ? TRP_AGAIN
                            : TRP_OK;
}

static trp_status init(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    s->was_zero = 1;
    for (size_t i = 0; i < sizeof s->zero; i++)
        s->was_zero = s->was_zero && s->zero[i] == 0;
    atomic_fetch_add(&inits, 1);
    if (strncmp(instance->config, "note:", 5) == 0)
        snprintf(note_path, sizeof note_path, "%s", instance->config + 5);
    return misbehave(instance, error);
}

static void trim(trp_instance *instance)
{
    (void)instance->services->idle(instance);
    atomic_fetch_add(&trims, 1);
}

static void stop(trp_instance *instance)
{
    (void)instance;
    note("stop\n");
}

/* Requests. */

static uint32_t word(const trp_job *job, size_t index)
{
    uint32_t value = 0;
    if (job->payload_bytes >= (index + 1) * sizeof value)
        memcpy(&value, (const char *)job->payload + index * sizeof value, sizeof value);
    return value;
}

static trp_status fill_outputs(trp_instance *instance, const trp_job *job, uint32_t divisor,
                               trp_error *error)
{
    trp_status status = TRP_OK;
    for (uint32_t i = 0; i < job->access_count && status == TRP_OK; i++) {
        if (job->access[i].mode & TRP_ACCESS_WRITE)
            status = instance->services->fill(instance, job->access[i].address, word(job, 0), 4,
                                              job->access[i].bytes / 4 / divisor, error);
    }
    return status;
}

static trp_status report(trp_instance *instance, const trp_job *job, trp_error *error)
{
    const state *s = instance->state;
    const unsigned char *payload = job->payload;
    hostile_report r = {
        .inits = atomic_load(&inits),
        .handled = s->handled,
        .incarnation = instance->incarnation,
        .backend = instance->backend,
        .state_was_zero = s->was_zero,
        .name_length = (uint32_t)strlen(instance->name),
        .name_first = (unsigned char)instance->name[0],
        .config_length = (uint32_t)strlen(instance->config),
        .payload_bytes = job->payload_bytes,
        .access_count = job->access_count,
        .trims = atomic_load(&trims),
    };
    uint32_t words[sizeof r / 4];
    trp_status status = TRP_OK;
    for (uint32_t i = 0; i < job->payload_bytes; i++)
        r.payload_sum = r.payload_sum * 31 + payload[i];
    for (uint32_t i = 0; i < job->access_count; i++) {
        r.mode[i] = job->access[i].mode;
        r.bytes[i] = (uint32_t)job->access[i].bytes;
    }
    if (job->access[0].bytes < sizeof r)
        return instance->services->fail(error, TRP_E_ARGUMENT, "", 0, "no room for a report");
    memcpy(words, &r, sizeof r);
    for (size_t i = 0; i < sizeof words / sizeof *words && status == TRP_OK; i++)
        status = instance->services->fill(instance, (char *)job->access[0].address + 4 * i,
                                          words[i], 4, 1, error);
    return status;
}

typedef struct add_arguments {
    uint32_t *at;
    uint64_t count;
    uint32_t value;
} add_arguments;

static void run_add(void *memory)
{
    const add_arguments *a = memory;
    for (uint64_t i = 0; i < a->count; i++)
        a->at[i] += a->value;
}

static trp_status pieces(trp_instance *instance, trp_job *job, trp_error *error)
{
    uint64_t n = word(job, 0), each = job->access[0].bytes / 4 / n;
    trp_status status = instance->services->fill(
        instance, (char *)job->access[0].address + job->progress * each * 4, word(job, 1), 4, each,
        error);
    return status != TRP_OK ? status : ++job->progress < n ? TRP_AGAIN : TRP_OK;
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    const trp_services *services = instance->services;
    state *s = instance->state;
    trp_status status;
    s->handled += job->progress == 0;
    switch (job->code) {
    case HOSTILE_FILL:
        note("fill\n");
        return fill_outputs(instance, job, 1, error);
    case HOSTILE_COPY:
        return services->copy(instance, job->access[0].address, job->access[1].address,
                              job->access[0].bytes, error);
    case HOSTILE_REPORT:
        return report(instance, job, error);
    case HOSTILE_ADD: {
        add_arguments a = {
            .at = job->access[0].address, .count = job->access[0].bytes / 4, .value = word(job, 0)};
        return services->enqueue(instance, run_add, &a, sizeof a, error);
    }
    case HOSTILE_REFUSE:
        return services->fail(error, (trp_status)word(job, 0), "hostile", (int32_t)word(job, 1),
                              "asked to refuse with %u", word(job, 0));
    case HOSTILE_MUTE:
        return (trp_status)word(job, 0);
    case HOSTILE_PIECES:
        return pieces(instance, job, error);
    case HOSTILE_MEMORY:
        return atomic_load(&trims) > 0
                   ? TRP_OK
                   : services->fail(error, TRP_E_MEMORY, "hostile", 7, "no memory left");
    case HOSTILE_LARGE: {
        const char large[TRP_ACTOR_ENQUEUE_MAX + 1] = {0};
        return services->enqueue(instance, run_add, large, sizeof large, error);
    }
    case HOSTILE_SEGV:
        segv();
        break;
    case HOSTILE_ABORT:
        restore_default(SIGABRT);
        abort();
    case HOSTILE_EXIT:
        _exit(5);
    case HOSTILE_HANG:
        hang();
        break;
    case HOSTILE_STREAM_SEGV:
    case HOSTILE_STREAM_EXIT:
    case HOSTILE_STREAM_HANG:
        status = fill_outputs(instance, job, 2, error);
        return status != TRP_OK ? status
                                : enqueue(instance,
                                          job->code == HOSTILE_STREAM_SEGV   ? run_segv
                                          : job->code == HOSTILE_STREAM_EXIT ? run_exit
                                                                             : run_hang,
                                          error);
    default:
        break;
    }
    return services->fail(error, TRP_E_UNSUPPORTED, "hostile", (int32_t)job->code,
                          "code %u is not known", job->code);
}

static const trp_actor_impl impl = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(state),
    .init = init,
    .handle = handle,
    .trim = trim,
    .stop = stop,
};

const trp_actor_library trp_actor_entry = {
    .head = TRP_ACTOR_HEAD,
    .name = "hostile",
    .version = "1",
    .cuda = &impl,
    .host = &impl,
};
