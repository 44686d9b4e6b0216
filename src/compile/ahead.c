#include "compile/ahead.h"

#include "base/checksum.h"
#include "base/os/cpu.h"
#include "base/os/thread.h"
#include "compile/folders.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, TASKS_MOST = 1 << 16, SLOTS = 2 * TASKS_MOST, FOLDERS_KNOWN = 16 };

/* An include to resolve. `beside`, stored behind the name, is the folder of the including file, for
 * a name in quotes. */
typedef struct task {
    const char *beside; /* NULL: none */
    bool all;
    char name[];
} task;

typedef struct reading {
    const trp__jit_program *program;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    task **task;    /* TASKS_MOST pointers */
    uint64_t *seen; /* checksums of all tasks, in SLOTS places */
    size_t count, next, at_work;
    trp__jit_folders folders;
} reading;

/* Adds an include unless it is listed already. The lock is held. */
static void add(reading *r, const char *operand, bool all, const char *beside)
{
    bool quotes = *operand == '"';
    size_t length = strlen(operand) - 2, folder = quotes && beside ? strlen(beside) + 1 : 0;
    if (r->count == TASKS_MOST)
        return;
    task *t = malloc(sizeof *t + length + 1 + folder);
    if (!t)
        return;
    memcpy(t->name, operand + 1, length);
    t->name[length] = '\0';
    t->all = all;
    t->beside = folder > 0 ? memcpy(t->name + length + 1, beside, folder) : NULL;
    /* "Any of the files" (`all`) is another task than "the first one". */
    uint64_t sum = (trp__checksum(t->name, length + 1 + folder) ^ (all ? UINT64_MAX : 0)) | 1;
    size_t at = (sum >> 1) % SLOTS;
    while (r->seen[at] && r->seen[at] != sum)
        at = (at + 1) % SLOTS;
    if (r->seen[at]) {
        free(t);
        return;
    }
    r->seen[at] = sum;
    r->task[r->count++] = t;
    pthread_cond_signal(&r->changed);
}

/* Reads a file and adds its includes. False: there is none. */
static bool read_one(reading *r, const char *folder, const char *name)
{
    char path[2 * PATH_MAX];
    const trp__include_scan *scan;
    trp__jit_stamp stamp;
    bool settled;
    int length =
        snprintf(path, sizeof path, "%s%s%s", folder ? folder : "", folder ? "/" : "", name);
    if (length < 0 || length >= PATH_MAX)
        return false;
    pthread_mutex_lock(&r->lock);
    bool none = trp__jit_folders_lack(&r->folders, path);
    pthread_mutex_unlock(&r->lock);
    if (none || trp__include_scan_file(path, &scan, &stamp, &settled) != TRP__JIT_FILE_READ)
        return false;
    *strrchr(path, '/') = '\0';
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < scan->count; i++) {
        const trp__include_item *f = &scan->item[i];
        if (f->kind == TRP__JIT_INCLUDES)
            add(r, f->operand, f->all, path);
    }
    pthread_mutex_unlock(&r->lock);
    trp__include_scan_release(scan);
    return true;
}

static void look_for(reading *r, const task *t)
{
    const trp__jit_program *p = r->program;
    bool found = false;
    if (t->name[0] == '/') {
        read_one(r, NULL, t->name);
        return;
    }
    if (t->beside)
        found = read_one(r, t->beside, t->name);
    for (uint32_t i = 0; i < p->include_count && (!found || t->all); i++)
        found = read_one(r, p->includes[i], t->name) || found;
}

/* Resolves tasks until none is left and no thread may add more. */
static void *read_some(void *argument)
{
    reading *r = argument;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (r->next == r->count && r->at_work > 0)
            pthread_cond_wait(&r->changed, &r->lock);
        if (r->next == r->count)
            break;
        task *t = r->task[r->next++];
        r->at_work++;
        pthread_mutex_unlock(&r->lock);
        look_for(r, t);
        free(t);
        pthread_mutex_lock(&r->lock);
        r->at_work--;
    }
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static void read_all(reading *r, size_t threads)
{
    pthread_t thread[THREADS];
    size_t started = 0;
    while (started < threads - 1 &&
           trp__thread_start(&thread[started], TRP__SIGNALS_BLOCKED, read_some, r) == 0)
        started++;
    read_some(r);
    for (size_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
}

/* The lists of folders that were read ahead. A caller that comes meanwhile waits: it needs what is
 * being read. */
static struct {
    pthread_mutex_t lock;
    uint64_t sum[FOLDERS_KNOWN];
    size_t count;
} done = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_done(const trp__jit_program *p)
{
    uint64_t sum = p->include_count;
    for (uint32_t i = 0; i < p->include_count; i++)
        sum = sum * 31 + trp__checksum(p->includes[i], strlen(p->includes[i]));
    for (size_t i = 0; i < done.count; i++) {
        if (done.sum[i] == sum)
            return true;
    }
    if (done.count == FOLDERS_KNOWN)
        return true;
    done.sum[done.count++] = sum;
    return false;
}

static void read_ahead(const trp__jit_program *program, size_t threads)
{
    const trp__jit_text *own = &program->source;
    reading r = {.program = program,
                 .lock = PTHREAD_MUTEX_INITIALIZER,
                 .changed = PTHREAD_COND_INITIALIZER,
                 .task = malloc(TASKS_MOST * sizeof(task *)),
                 .seen = calloc(SLOTS, sizeof *r.seen)};
    const trp__include_scan *scan = trp__include_scan_text(own->text, strlen(own->text));
    if (r.task && r.seen && scan) {
        for (size_t i = 0; i < scan->count; i++) {
            if (scan->item[i].kind == TRP__JIT_INCLUDES)
                add(&r, scan->item[i].operand, scan->item[i].all, NULL);
        }
        read_all(&r, threads);
    }
    trp__include_scan_release(scan);
    trp__jit_folders_free(&r.folders);
    free(r.task);
    free(r.seen);
}

void trp__jit_headers_ahead(const trp__jit_program *program)
{
    size_t threads = trp__cpu_count() < THREADS ? trp__cpu_count() : THREADS;
    if (threads < 2 || program->include_count == 0)
        return;
    pthread_mutex_lock(&done.lock);
    if (!is_done(program))
        read_ahead(program, threads);
    pthread_mutex_unlock(&done.lock);
}
