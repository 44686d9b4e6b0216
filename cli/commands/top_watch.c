#include "top.h"

#include "ui/ui.h"

#include <stdlib.h>
#include <string.h>

enum { PIDS_MOST = 4096, DEVICES_OF_A_PROCESS = 64 };

static bool grow(void **array, size_t needed, size_t *room, size_t size)
{
    if (needed <= *room)
        return true;
    size_t more = *room ? 2 * *room : 8;
    more = more < needed ? needed : more;
    void *moved = realloc(*array, more * size);
    if (moved) {
        *array = moved;
        *room = more;
    }
    return moved != NULL;
}

static trp_status add_process(top_watch *w, int64_t pid)
{
    if (!grow((void **)&w->process, w->count + 1, &w->room, sizeof *w->process))
        return TRP_E_MEMORY;
    top_process *p = &w->process[w->count];
    *p = (top_process){.pid = pid, .listed = true};
    const trp_status status = trp_observer_open(pid, &p->observer);
    w->count += status == TRP_OK;
    return status;
}

trp_status top_watch_begin(top_watch *watch, int64_t pid)
{
    *watch = (top_watch){.pid = pid};
    return pid ? add_process(watch, pid) : TRP_OK;
}

void top_watch_end(top_watch *watch)
{
    for (size_t i = 0; i < watch->count; i++)
        trp_observer_close(watch->process[i].observer);
    free(watch->process);
    *watch = (top_watch){0};
}

/* Adds new processes and drops those without devices. */
static trp_status find_processes(top_watch *w)
{
    static int64_t pids[PIDS_MOST];
    size_t count = 0, left = 0;
    trp_status status = trp_observer_find(pids, PIDS_MOST, &count);
    if (status != TRP_OK)
        return status;
    count = count < PIDS_MOST ? count : PIDS_MOST;
    for (size_t i = 0; i < w->count; i++)
        w->process[i].listed = false;
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < w->count && w->process[k].pid != pids[i])
            k++;
        if (k < w->count)
            w->process[k].listed = true;
        else if (add_process(w, pids[i]) == TRP_E_MEMORY)
            return TRP_E_MEMORY;
    }
    for (size_t i = 0; i < w->count; i++) {
        if (w->process[i].listed)
            w->process[left++] = w->process[i];
        else
            trp_observer_close(w->process[i].observer);
    }
    w->count = left;
    return TRP_OK;
}

static trp_status look_at(const top_process *p, top_sample *s)
{
    size_t found = 0;
    if (!grow((void **)&s->device, s->count + DEVICES_OF_A_PROCESS, &s->room, sizeof *s->device))
        return TRP_E_MEMORY;
    const trp_status status =
        trp_observer_read(p->observer, s->device + s->count, DEVICES_OF_A_PROCESS, &found);
    if (status == TRP_OK)
        s->count += found < DEVICES_OF_A_PROCESS ? found : DEVICES_OF_A_PROCESS;
    return status;
}

trp_status top_look(top_watch *watch, top_sample *sample)
{
    trp_status status = watch->pid ? TRP_OK : find_processes(watch);
    sample->count = 0;
    for (size_t i = 0; i < watch->count && status == TRP_OK; i++) {
        status = look_at(&watch->process[i], sample);
        if (!watch->pid && status != TRP_E_MEMORY)
            status = TRP_OK; /* the process has ended, or is of another version */
    }
    sample->time = ui_now();
    return status;
}

void top_forget(top_sample *sample)
{
    free(sample->device);
    *sample = (top_sample){0};
}

const trp_device_stats *top_device_before(const top_sample *earlier, const trp_device_stats *d)
{
    for (size_t i = 0; earlier && i < earlier->count; i++) {
        const trp_device_stats *b = &earlier->device[i];
        if (b->pid == d->pid && b->number == d->number &&
            b->info.requests_submitted <= d->info.requests_submitted)
            return b;
    }
    return NULL;
}

const trp_actor_stats *top_actor_before(const trp_device_stats *earlier, const trp_actor_stats *a)
{
    for (uint32_t i = 0; earlier && i < earlier->actor_count; i++) {
        const trp_actor_stats *b = &earlier->actor[i];
        if (b->id == a->id && !strcmp(b->name, a->name) && a->done >= b->done)
            return b;
    }
    return NULL;
}
