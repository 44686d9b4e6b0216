/* Measures the cache of compiled kernels: a large cache, and many processes that share one. */
#include "jit.h"

#include "cache/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENTRIES = 10000, ENTRIES_QUICK = 1000, PROCESSES = 64, SHARED = 20 };

static void key_of(trp__key *key, unsigned number)
{
    char name[32];
    *key = (trp__key){0};
    snprintf(name, sizeof name, "kernel %u", number);
    trp__key_begin(key, "jit");
    trp__key_add_text(key, TRP__KEY_NAME, name);
    trp__key_add_text(key, TRP__KEY_SOURCE, name);
}

static bool fill(suite *s, trp__store *store, unsigned from, unsigned to)
{
    static const char payload[4096] = "payload";
    trp_error error;
    for (unsigned i = from; i < to; i++) {
        trp__key key;
        key_of(&key, i);
        const trp__store_request request = {.key = &key};
        const trp__store_entry entry = {.payload = payload, .bytes = sizeof payload};
        trp_status status = trp__store_put(store, &request, &entry, &error);
        trp__key_end(&key);
        if (status != TRP_OK) {
            snprintf(s->error, sizeof s->error, "%s", error.message);
            return false;
        }
    }
    return true;
}

static bool look_up(suite *s, trp__store *store, unsigned entries, double *ns, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        trp__key key;
        trp__store_hit hit;
        key_of(&key, (unsigned)(suite_random(s->seed, i) % entries));
        const trp__store_request request = {.key = &key};
        int64_t from = stats_now();
        trp_status status = trp__store_find(store, &request, &hit);
        ns[i] = (double)(stats_now() - from);
        trp__store_hit_end(&hit);
        trp__key_end(&key);
        if (status != TRP_OK) {
            snprintf(s->error, sizeof s->error, "an entry that was written is not there");
            return false;
        }
    }
    return true;
}

static bool time_stat(suite *s, double *ns, uint32_t count)
{
    static const char *const arguments[] = {"troupe", "cache", "stat", NULL};
    for (uint32_t i = 0; i < count; i++) {
        int64_t from = stats_now();
        if (!suite_run(s, arguments))
            return false;
        ns[i] = (double)(stats_now() - from);
    }
    return true;
}

static bool measure_large(suite *s, trp__store *store, unsigned entries)
{
    enum { FINDS = 2000, STATS = 9, FEW = 10 };
    static double ns[2][FINDS], stat_ns[2][STATS];
    char many[32];
    if (!fill(s, store, 0, FEW) || !look_up(s, store, FEW, ns[0], FINDS) ||
        !time_stat(s, stat_ns[0], STATS) || !fill(s, store, FEW, entries) ||
        !look_up(s, store, entries, ns[1], FINDS) || !time_stat(s, stat_ns[1], STATS))
        return false;
    report_row row = {.raw = "a cache of 10 entries", .unit = "us", .tail = true, .scale = 1e-3};
    snprintf(many, sizeof many, "%u entries", entries);
    snprintf(row.name, sizeof row.name, "look-up, %s", many);
    row.raw_ns = stats_summarise(ns[0], FINDS);
    row.troupe_ns = stats_summarise(ns[1], FINDS);
    row.bound = REPORT_RATIO_AT_MOST;
    row.limit = 2; /* entries other than the last are in no processor cache, so more entries change
                    * nothing */
    report_add(s->report, &row);
    row = (report_row){.raw = "a cache of 10 entries",
                       .unit = "ms",
                       .scale = 1e-6,
                       .bound = REPORT_VALUE_AT_MOST,
                       .limit = 100};
    snprintf(row.name, sizeof row.name, "troupe cache stat, %s", many);
    row.raw_ns = stats_summarise(stat_ns[0], STATS);
    row.troupe_ns = stats_summarise(stat_ns[1], STATS);
    report_add(s->report, &row);
    return true;
}

void suite_jit_large(suite *s)
{
    jit_place p;
    trp__store *store = NULL;
    trp_error error;
    report_section(s->report, "A large cache", "raw: 10 entries; Troupe: many");
    bool ok = jit_begin(s, &p) &&
              trp__store_open(&(trp__store_options){.folder = p.cache, .packs = ""}, &store,
                              &error) == TRP_OK &&
              measure_large(s, store, s->quick ? ENTRIES_QUICK : ENTRIES);
    if (!ok)
        suite_fail(s, "a large cache");
    trp__store_close(store);
    jit_end(&p);
}

/* Counts new entries. An entry gets its name by a rename, so the renames count the compilations. */

static unsigned count_entries(int watch)
{
    char events[65536] __attribute__((aligned(__alignof__(struct inotify_event))));
    unsigned count = 0;
    for (ssize_t bytes; (bytes = read(watch, events, sizeof events)) > 0;) {
        for (const char *at = events; at < events + bytes;) {
            const struct inotify_event *e = (const struct inotify_event *)(const void *)at;
            const char *dot = e->len > 0 ? strrchr(e->name, '.') : NULL;
            count += dot && strcmp(dot, ".entry") == 0;
            at += sizeof *e + e->len;
        }
    }
    return count;
}

static bool put_kernels(suite *s, const jit_place *p)
{
    FILE *list = fopen(p->list, "w");
    bool ok = list != NULL;
    for (unsigned i = 0; i < SHARED && ok; i++) {
        char name[16], path[SCRATCH_PATH];
        char *source = jit_source(i, JIT_STEPS_SMALL);
        snprintf(name, sizeof name, "k%u.cu", i);
        scratch_path(&p->files, name, path);
        ok =
            source && scratch_write(s, path, source) && fprintf(list, "%s --name warm\n", name) > 0;
        free(source);
    }
    if (list)
        ok = fclose(list) == 0 && ok;
    return ok;
}

static bool start_all(suite *s, const jit_place *p, uint32_t count, double *ns)
{
    const char *const arguments[] = {"troupe", "cache",  "warm",    "-q",
                                     p->list,  "--arch", p->target, NULL};
    pid_t pid[PROCESSES];
    uint32_t started = 0;
    int64_t from = stats_now();
    while (started < count && jit_start(s, arguments, &pid[started]))
        started++;
    bool ok = started == count;
    for (uint32_t i = 0; i < started; i++)
        ok = jit_finish(s, pid[i]) && ok;
    *ns = (double)(stats_now() - from);
    return ok;
}

static bool measure_processes(suite *s, const jit_place *p)
{
    double one = 0, all = 0;
    char store[SCRATCH_PATH];
    scratch_path(&p->files, "one", store);
    setenv("TROUPE_CACHE_DIR", store, 1);
    if (!start_all(s, p, 1, &one))
        return false;
    setenv("TROUPE_CACHE_DIR", p->cache, 1);
    scratch_path(&p->files, "cache/store", store);
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (mkdir(p->cache, 0700) != 0 || mkdir(store, 0700) != 0 || watch < 0 ||
        inotify_add_watch(watch, store, IN_MOVED_TO) < 0) {
        suite_failed(s, store);
        if (watch >= 0)
            close(watch);
        return false;
    }
    bool ok = start_all(s, p, PROCESSES, &all);
    unsigned made = count_entries(watch);
    close(watch);
    if (!ok)
        return false;
    report_row row = {
        .raw = "one process", .name = "64 processes, 20 kernels", .unit = "s", .scale = 1e-9};
    row.raw_ns = stats_summarise(&one, 1);
    row.troupe_ns = stats_summarise(&all, 1);
    snprintf(row.note, sizeof row.note, "%u compiled", made);
    report_add(s->report, &row);
    if (made == SHARED)
        return true;
    snprintf(s->error, sizeof s->error, "%u kernels were compiled, expected %d", made, SHARED);
    return false;
}

void suite_jit_processes(suite *s)
{
    jit_place p;
    report_section(s->report, "Processes that start together and want the same kernels",
                   "raw: one process; Troupe: 64 at once");
    if (!jit_begin(s, &p) || !put_kernels(s, &p) || !measure_processes(s, &p))
        suite_fail(s, "64 processes");
    jit_end(&p);
}
