#include "top.h"

#include "ui/ui.h"

#include <inttypes.h>
#include <stdio.h>

static void print_string(const char *key, const char *value)
{
    printf("\"%s\":", key);
    ui_json_string(value);
}

static void print_latency(const char *key, const trp_latency *l)
{
    printf(",\"%s\":{\"count\":%" PRIu64 ",\"sum_ns\":%" PRIu64 ",\"p50_ns\":%" PRIu64
           ",\"p99_ns\":%" PRIu64 "}",
           key, l->count, l->sum_ns, trp_latency_quantile(l, NULL, 0.5),
           trp_latency_quantile(l, NULL, 0.99));
}

static void print_actor(const trp_actor_stats *a)
{
    printf("{\"id\":%u,", a->id);
    print_string("name", a->name);
    printf(",");
    print_string("kind", a->kind);
    printf(",\"capacity\":%u,\"queued\":%u,\"in_flight\":%u,\"sent\":%" PRIu64 ",\"done\":%" PRIu64
           ",\"failed\":%" PRIu64 ",",
           a->capacity, a->queued, a->in_flight, a->sent, a->done, a->failed);
    print_string("running", a->running);
    if (*a->running_label) {
        printf(",");
        print_string("running_label", a->running_label);
    }
    printf(",\"running_request\":%" PRIu64, a->running_request);
    print_latency("waiting_time", &a->waiting_time);
    print_latency("running_time", &a->running_time);
    printf("}");
}

static void print_device(const trp_device_stats *d)
{
    const trp_device_info *i = &d->info;
    printf("{\"number\":%u,\"backend\":\"%s\",\"ordinal\":%u,", d->number,
           trp_backend_name(i->backend), i->ordinal);
    print_string("name", i->name);
    printf(",\"isolation\":\"%s\",\"state\":\"%s\",\"incarnation\":%u,\"worker_pid\":%" PRId64
           ",\"standby_pid\":%" PRId64 ",\"restarts\":%u,\"faults\":%" PRIu64
           ",\"promotions\":%" PRIu64,
           i->isolation == TRP_ISOLATION_THREAD ? "thread" : "process", top_state_name(i->state),
           i->incarnation, i->worker_pid, i->standby_pid, i->restarts, d->faults, d->promotions);
    printf(",\"memory_total\":%" PRIu64 ",\"memory_reserved\":%" PRIu64 ",\"memory_used\":%" PRIu64
           ",\"buffers\":%" PRIu64 ",\"sent\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"actors\":[",
           i->memory_total, i->memory_reserved, i->memory_used, i->buffers, i->requests_submitted,
           i->requests_failed);
    for (uint32_t k = 0; k < d->actor_count; k++) {
        printf("%s", k ? "," : "");
        print_actor(&d->actor[k]);
    }
    printf("]}");
}

/* Prints the devices from `first` on that belong to the process; returns their number. */
static size_t print_one(int64_t pid, const top_sample *s, size_t first)
{
    size_t i = first;
    printf("{\"pid\":%" PRId64 ",", pid);
    print_string("program", first < s->count ? s->device[first].program : "");
    printf(",\"devices\":[");
    for (; i < s->count && s->device[i].pid == s->device[first].pid; i++) {
        printf("%s", i > first ? "," : "");
        print_device(&s->device[i]);
    }
    printf("]}");
    return i - first;
}

void top_print_process(int64_t pid, const top_sample *sample)
{
    print_one(pid, sample, 0);
    printf("\n");
}

void top_print_list(const top_sample *sample)
{
    printf("{\"processes\":[");
    for (size_t i = 0; i < sample->count;) {
        printf("%s", i ? "," : "");
        i += print_one(sample->device[i].pid, sample, i);
    }
    printf("]}\n");
}
