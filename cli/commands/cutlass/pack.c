/* troupe cutlass pack: compiles kernels of the catalogue in parallel into one file.
 *
 * NVRTC's front end, where most of the time goes, admits one thread at a time: so each parallel
 * compile has a worker of its own, a device of the host backend. */
#include "commands/cache/make.h"
#include "cutlass.h"
#include "problem.h"
#include "spec.h"
#include "ui/ui.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { JOBS_MAX = 256 };

/* The outcome of a kernel's compile. */
typedef struct outcome {
    bool ended;
    trp_status status; /* TRP_E_CANCELLED: not compiled, since the command was interrupted */
    uint64_t ns, bytes;
} outcome;

typedef struct packing {
    const char *path, *output;
    int64_t jobs;
    bool quiet;
    spec spec;
    outcome *outcome; /* one per kernel of the spec */
    trp_system *system;
    pthread_mutex_t lock; /* guards the fields below and the output */
    pthread_cond_t changed;
    size_t next, ended, failed, at_work;
    size_t makers; /* threads still running */
    bool given_up; /* compiler or worker is missing */
    uint64_t began;
} packing;

/* A thread with a worker that compiles. */

static bool must_end(packing *p)
{
    return p->given_up || making_interrupted();
}

/* Takes the next kernel; false: there is none. */
static bool take_next(packing *p, size_t *index)
{
    pthread_mutex_lock(&p->lock);
    bool any = !must_end(p) && p->next < p->spec.count;
    if (any) {
        *index = p->next++;
        p->at_work++;
    }
    pthread_mutex_unlock(&p->lock);
    return any;
}

static void show_end(packing *p, const spec_kernel *k, const outcome *o, const char *message)
{
    char label[48];
    snprintf(label, sizeof label, "%zu of %zu", p->ended, p->spec.count);
    if (o->status != TRP_OK) {
        ui_step(UI_BAD, label, o->ns, "%s", k->label);
        ui_error("%s: %s (%s)", k->label, message, trp_status_name(o->status));
    } else if (!ui_is_terminal()) { /* on a terminal the table is enough */
        ui_step(UI_GOOD, label, o->ns, "%s: %s", k->label, ui_bytes(o->bytes).s);
    }
}

/* Records an outcome. A missing compiler is reported once. */
static void note_end(packing *p, size_t index, const outcome *o, const char *message)
{
    pthread_mutex_lock(&p->lock);
    bool reported = (p->given_up && o->status == TRP_E_MISSING) ||
                    (making_interrupted() && o->status == TRP_E_CANCELLED);
    p->outcome[index] = *o;
    p->at_work--;
    p->ended++;
    p->failed += o->status != TRP_OK;
    p->given_up = p->given_up || o->status == TRP_E_MISSING;
    if (!reported)
        show_end(p, p->spec.kernel[index], o, message);
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void compile_one(packing *p, size_t index, trp_device *device, trp_actor *jit)
{
    trp_jit_compile_request r = p->spec.kernel[index]->compile.request;
    trp_module module = {0};
    trp_module_info info = {0};
    trp_completion done = {0};
    trp_error error = {0};
    const char *message = error.message;
    uint64_t began = ui_now();
    outcome o = {.ended = true, .status = trp_jit_compile(jit, &r, &module, &done)};
    if (o.status == TRP_OK)
        o.status = making_await(&done, &error);
    else
        error = *trp_error_last();
    if (o.status == TRP_OK && making_is_unsure(device, module, &message))
        o.status = TRP_E_UNSUPPORTED;
    if (o.status == TRP_OK)
        (void)trp_module_get_info(device, module, &info);
    o.ns = ui_now() - began;
    o.bytes = info.image_bytes;
    note_end(p, index, &o, message);
    if (module.id)
        trp_module_free(device, module);
}

static void *make_some(void *argument)
{
    packing *p = argument;
    const trp_device_options options = {.backend = TRP_BACKEND_HOST,
                                        .isolation = TRP_ISOLATION_PROCESS,
                                        .standby = TRP_STANDBY_OFF};
    const trp_actor_options actor = {.kind = "jit"};
    trp_device *device = NULL;
    trp_actor *jit = NULL;
    size_t index;
    trp_status status = trp_device_open(p->system, &options, &device);
    if (status == TRP_OK)
        status = trp_actor_create(device, &actor, &jit);
    if (status != TRP_OK) {
        pthread_mutex_lock(&p->lock);
        if (!p->given_up)
            run_check(status, "starting a worker");
        p->given_up = true;
        pthread_mutex_unlock(&p->lock);
    }
    while (status == TRP_OK && take_next(p, &index))
        compile_one(p, index, device, jit);
    trp_actor_destroy(jit);
    trp_device_close(device);
    pthread_mutex_lock(&p->lock);
    p->makers--;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* The command's own thread. */

static void show_progress(const packing *p)
{
    uint64_t took = ui_now() - p->began;
    if (p->ended == 0)
        ui_progress("0 of %zu, %zu at work, %s", p->spec.count, p->at_work, ui_duration(took).s);
    else
        ui_progress("%zu of %zu, %zu at work, about %s left", p->ended, p->spec.count, p->at_work,
                    ui_duration(took / p->ended * (p->spec.count - p->ended)).s);
}

static void watch(packing *p)
{
    struct timespec until;
    pthread_mutex_lock(&p->lock);
    while (p->makers > 0) {
        show_progress(p);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&p->changed, &p->lock, &until);
    }
    pthread_mutex_unlock(&p->lock);
}

/* False: some kernels could not be compiled. */
static bool compile_all(packing *p)
{
    pthread_t thread[JOBS_MAX];
    size_t wanted = (size_t)p->jobs < p->spec.count ? (size_t)p->jobs : p->spec.count, started = 0;
    if (!run_check(trp_system_create(NULL, &p->system), "starting"))
        return false;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->began = ui_now();
    p->makers = wanted;
    while (started < wanted && pthread_create(&thread[started], NULL, make_some, p) == 0)
        started++;
    pthread_mutex_lock(&p->lock);
    p->makers -= wanted - started;
    pthread_mutex_unlock(&p->lock);
    watch(p);
    for (size_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    run_check(trp_system_destroy(p->system), "ending");
    if (started == 0)
        ui_error("no thread could be started");
    if (making_interrupted())
        ui_error("interrupted");
    return p->ended == p->spec.count && p->failed == 0;
}

static void show_table(const packing *p)
{
    ui_line("%10s %12s  %s", "seconds", "bytes", "kernel");
    for (size_t i = 0; i < p->spec.count; i++) {
        const outcome *o = &p->outcome[i];
        if (o->status == TRP_OK && o->ended)
            ui_line("%10.1f %12llu  %s", (double)o->ns / 1e9, (unsigned long long)o->bytes,
                    p->spec.kernel[i]->label);
        else
            ui_line("%10s %12s  %s", "-", o->ended ? "failed" : "-", p->spec.kernel[i]->label);
    }
}

/* Writes the pack with all kernels that could be compiled. */
static bool pack(packing *p)
{
    char folder[PATH_MAX] = "";
    size_t kernels = 0;
    uint64_t bytes = 0;
    if (!making_folder_make(folder))
        return false;
    bool ok = compile_all(p);
    size_t made = p->ended - p->failed;
    if (making_interrupted() || made == 0) {
        ui_error("no pack is written");
        ok = false;
    } else {
        show_table(p);
        bool written = making_fold(p->output, &kernels, &bytes);
        if (written)
            ui_line("%s in %s: %s, in %s", ui_plural(kernels, "kernel").s, p->output,
                    ui_bytes(bytes).s, ui_duration(ui_now() - p->began).s);
        if (written && kernels < made) /* the worker has logged why */
            ui_error("%zu of %zu kernels were lost: %s may be full", made - kernels, made, folder);
        ok = ok && written && kernels == made;
    }
    making_folder_remove(folder);
    return ok;
}

static int work(packing *p, const uint32_t *capabilities, size_t count)
{
    bool ok = spec_read(p->path, capabilities, count, &p->spec);
    if (ok && p->spec.count == 0) {
        ui_error("%s: expected at least one kernel for these devices; no pack is written", p->path);
        ok = false;
    }
    ok = ok && making_try(p->output);
    p->outcome = ok ? calloc(p->spec.count, sizeof *p->outcome) : NULL;
    if (ok && !p->outcome)
        ui_error("out of memory");
    ok = p->outcome && pack(p);
    free(p->outcome);
    spec_end(&p->spec);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

/* Parses "90a,80"; returns the count, 0 if one is wrong. */
static size_t read_capabilities(const char *text, uint32_t *out, size_t room)
{
    size_t count = 0;
    char one[16];
    for (const char *at = text; count < room; at++) {
        size_t length = strcspn(at, ",");
        snprintf(one, sizeof one, "%.*s", (int)(length < sizeof one ? length : sizeof one - 1), at);
        out[count] = cutlass_capability(one);
        if (out[count++] == 0)
            return 0;
        at += length;
        if (*at == '\0')
            return count;
    }
    return 0;
}

int cutlass_pack(int argc, char **argv)
{
    enum { DEVICES = 16 };
    const char *arch = NULL;
    uint32_t capabilities[DEVICES];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    packing p = {.jobs = processors > 0 && processors < JOBS_MAX ? processors : 1};
    int status;
    const option options[] = {
        {'s', "spec", "KERNELS.json", "the kernels to compile", OPTION_TEXT, &p.path, NULL},
        {0, "arch", "90a,80", "for devices of these capabilities", OPTION_TEXT, &arch, NULL},
        {'o', "output", "PACK", "the file to write", OPTION_TEXT, &p.output, NULL},
        {'j', "jobs", "N", "compiles that run at a time (default: one per processor)",
         OPTION_NUMBER, &p.jobs, NULL},
        {'q', "quiet", NULL, "print errors only", OPTION_FLAG, &p.quiet, NULL},
    };
    const struct command command = {
        .name = "cutlass pack",
        .operands = "--spec KERNELS.json --arch 90a,80 -o PACK",
        .about =
            "Compiles kernels of the catalogue for devices that need not be there, into one file\n"
            "that an application ships: a program for which TROUPE_CACHE_PACKS names it finds\n"
            "them there. Needs NVRTC, nvJitLink and the headers of CUTLASS, and no GPU.",
        OPTIONS_OF(options),
    };
    if (!options_parse(&command, argc, argv, &status))
        return status;
    ui_set_quiet(p.quiet);
    if (!p.path || !arch || !p.output)
        return options_reject(&command, "expected %s",
                              !p.path ? "--spec KERNELS.json, the kernels to compile"
                              : !arch ? "--arch 90a or the like, the devices"
                                      : "-o PACK, the file to write");
    if (p.jobs < 1 || p.jobs > JOBS_MAX)
        return options_reject(&command, "--jobs: expected 1 to %d, got %lld", JOBS_MAX,
                              (long long)p.jobs);
    size_t count = read_capabilities(arch, capabilities, DEVICES);
    if (count == 0)
        return options_reject(&command, "--arch: expected 90a, 80 or the like, with commas, got %s",
                              arch);
    return work(&p, capabilities, count);
}
