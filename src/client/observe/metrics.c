/* Figures in the text format of Prometheus, 0.0.4: for each metric its HELP and TYPE, then a line
 * for each device, or for each actor of each device. */
#include "base/call.h"
#include "base/error.h"
#include "base/text.h"
#include "client/observe/observe.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct metric {
    const char *name, *type, *help;
    uint64_t (*of_device)(const trp_device_stats *d); /* one of the two */
    uint64_t (*of_actor)(const trp_actor_stats *a);
} metric;

/* One row a metric: name, type, field, help. */
#define DEVICE_METRICS(X)                                                                          \
    X(incarnation, gauge, info.incarnation, "Number of the worker that takes requests.")           \
    X(restarts_total, counter, info.restarts,                                                      \
      "Replacements of workers, failed attempts included.")                                        \
    X(faults_total, counter, faults, "Workers that died or had to be killed.")                     \
    X(standby_promotions_total, counter, promotions, "Times that a standby took over.")            \
    X(standby_ready, gauge, info.standby_pid != 0, "1 if a standby worker is ready.")              \
    X(memory_total_bytes, gauge, info.memory_total, "Memory of the device.")                       \
    X(memory_reserved_bytes, gauge, info.memory_reserved, "Memory taken from the device.")         \
    X(memory_used_bytes, gauge, info.memory_used, "Memory of live buffers.")                       \
    X(buffers, gauge, info.buffers, "Live buffers.")

#define ACTOR_METRICS(X)                                                                           \
    X(requests_sent_total, counter, sent, "Requests accepted by the actor.")                       \
    X(requests_done_total, counter, done, "Requests that the device is done with.")                \
    X(requests_failed_total, counter, failed, "Requests that ended with an error.")                \
    X(queue_depth, gauge, queued, "Requests sent and not yet issued to the device.")               \
    X(requests_in_flight, gauge, in_flight, "Requests issued to the device and not done.")         \
    X(mailbox_capacity, gauge, capacity, "Requests that the actor's mailbox takes.")

#define DEVICE_GETTER(name, type, field, help)                                                     \
    static uint64_t device_##name(const trp_device_stats *d)                                       \
    {                                                                                              \
        return (uint64_t)(d->field);                                                               \
    }
DEVICE_METRICS(DEVICE_GETTER)
#undef DEVICE_GETTER

#define ACTOR_GETTER(name, type, field, help)                                                      \
    static uint64_t actor_##name(const trp_actor_stats *a)                                         \
    {                                                                                              \
        return (uint64_t)(a->field);                                                               \
    }
ACTOR_METRICS(ACTOR_GETTER)
#undef ACTOR_GETTER

static const metric metrics[] = {
#define DEVICE_ROW(name, type, field, help) {"troupe_" #name, #type, help, device_##name, NULL},
#define ACTOR_ROW(name, type, field, help)  {"troupe_" #name, #type, help, NULL, actor_##name},
    DEVICE_METRICS(DEVICE_ROW) ACTOR_METRICS(ACTOR_ROW)
#undef DEVICE_ROW
#undef ACTOR_ROW
};

static void head(trp__text *t, const char *name, const char *type, const char *help)
{
    trp__text_add(t, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void label(trp__text *t, const char *name, const char *value)
{
    trp__text_add(t, ",%s=\"", name);
    trp__text_add_quoted(t, value);
    trp__text_add(t, "\"");
}

/* NAME{pid="7",program="server",device="0",backend="cuda",ordinal="0" -- still open. `suffix`
 * belongs to the name. */
static void device_labels(trp__text *t, const char *name, const char *suffix,
                          const trp_device_stats *d)
{
    trp__text_add(t, "%s%s{pid=\"%" PRId64 "\"", name, suffix, d->pid);
    label(t, "program", d->program);
    trp__text_add(t, ",device=\"%u\",backend=\"%s\",ordinal=\"%u\"", d->number,
                  trp_backend_name(d->info.backend), d->info.ordinal);
}

/* Adds the same with the labels of an actor. */
static void actor_labels(trp__text *t, const char *name, const char *suffix,
                         const trp_device_stats *d, const trp_actor_stats *a)
{
    device_labels(t, name, suffix, d);
    trp__text_add(t, ",id=\"%u\"", a->id);
    label(t, "kind", a->kind);
    label(t, "actor", a->name);
}

static void end_line(trp__text *t, uint64_t value)
{
    trp__text_add(t, "} %" PRIu64 "\n", value);
}

static uint32_t actor_count(const trp_device_stats *d)
{
    return d->actor_count < TRP_STATS_ACTORS ? d->actor_count : TRP_STATS_ACTORS;
}

static void add_info(trp__text *t, const trp_device_stats *stats, size_t count)
{
    head(t, "troupe_device_info", "gauge", "An open device; always 1.");
    for (size_t i = 0; i < count; i++) {
        device_labels(t, "troupe_device_info", "", &stats[i]);
        label(t, "name", stats[i].info.name);
        label(t, "isolation",
              stats[i].info.isolation == TRP_ISOLATION_THREAD ? "thread" : "process");
        end_line(t, 1);
    }
}

static void add_state(trp__text *t, const trp_device_stats *stats, size_t count)
{
    static const trp_device_state states[] = {TRP_DEVICE_READY, TRP_DEVICE_RECOVERING,
                                              TRP_DEVICE_DOWN};
    head(t, "troupe_device_state", "gauge", "1 for the state that the device is in, else 0.");
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < sizeof states / sizeof *states; k++) {
            device_labels(t, "troupe_device_state", "", &stats[i]);
            label(t, "state", trp__device_state_name(states[k]));
            end_line(t, stats[i].info.state == states[k]);
        }
    }
}

static void add_metric(trp__text *t, const metric *m, const trp_device_stats *d)
{
    if (m->of_device) {
        device_labels(t, m->name, "", d);
        end_line(t, m->of_device(d));
        return;
    }
    for (uint32_t i = 0; i < actor_count(d); i++) {
        const trp_actor_stats *a = &d->actor[i];
        actor_labels(t, m->name, "", d, a);
        end_line(t, m->of_actor(a));
    }
}

/* Histograms. */

static const struct {
    const char *name, *help;
    size_t offset; /* of the trp_latency in trp_actor_stats */
} histograms[] = {
    {"troupe_request_waiting_seconds",
     "Time of requests from sent to the beginning of their work, of those that have ended.",
     offsetof(trp_actor_stats, waiting_time)},
    {"troupe_request_running_seconds",
     "Time of requests from the beginning of their work to their end being seen.",
     offsetof(trp_actor_stats, running_time)},
};

/* Every other bound, 1, 2 and 5 of each power of ten, to keep the number of series small. */
static void add_histogram(trp__text *t, const char *name, const trp_device_stats *d,
                          const trp_actor_stats *a, const trp_latency *l)
{
    uint64_t below = 0;
    for (uint32_t i = 0; i < TRP_LATENCY_BUCKETS; i++) {
        const bool last = i + 1 == TRP_LATENCY_BUCKETS;
        below += l->bucket[i];
        if (!last && i % 2 != 0)
            continue;
        actor_labels(t, name, "_bucket", d, a);
        if (last)
            trp__text_add(t, ",le=\"+Inf\"");
        else
            trp__text_add(t, ",le=\"%g\"", (double)trp_latency_bound(i) / 1e9);
        end_line(t, below);
    }
    actor_labels(t, name, "_sum", d, a);
    trp__text_add(t, "} %.9f\n", (double)l->sum_ns / 1e9);
    actor_labels(t, name, "_count", d, a);
    end_line(t, below);
}

static void add_histograms(trp__text *t, const trp_device_stats *stats, size_t count)
{
    for (size_t h = 0; h < sizeof histograms / sizeof *histograms; h++) {
        head(t, histograms[h].name, "histogram", histograms[h].help);
        for (size_t i = 0; i < count; i++) {
            for (uint32_t k = 0; k < actor_count(&stats[i]); k++) {
                const trp_actor_stats *a = &stats[i].actor[k];
                const char *at = (const char *)a + histograms[h].offset;
                add_histogram(t, histograms[h].name, &stats[i], a, (const trp_latency *)at);
            }
        }
    }
}

trp_status trp_stats_metrics(const trp_device_stats *stats, size_t count, char *out, size_t size,
                             size_t *needed)
{
    if ((!stats && count > 0) || (!out && size > 0))
        return trp__fail_null(out || size == 0 ? "stats" : "out");
    trp__text t = {.out = out, .size = size};
    if (size > 0)
        out[0] = '\0';
    if (count > 0) {
        add_info(&t, stats, count);
        add_state(&t, stats, count);
    }
    for (size_t m = 0; m < sizeof metrics / sizeof *metrics && count > 0; m++) {
        head(&t, metrics[m].name, metrics[m].type, metrics[m].help);
        for (size_t i = 0; i < count; i++)
            add_metric(&t, &metrics[m], &stats[i]);
    }
    if (count > 0)
        add_histograms(&t, stats, count);
    if (needed)
        *needed = t.length + 1;
    return t.length < size ? TRP_OK
                           : trp__fail(TRP_E_ARGUMENT, "size: expected at least %zu, got %zu",
                                       t.length + 1, size);
}

trp_status trp_system_metrics(trp_system *system, char *out, size_t size, size_t *needed)
{
    TRP__CALL(trp__call_refused());
    if (!system || (!out && size > 0))
        return trp__fail_null(system ? "out" : "system");
    trp_status status = trp__system_usable(system);
    if (status != TRP_OK)
        return status;
    trp_device_stats *stats = malloc(TRP__DEVICES * sizeof *stats);
    size_t count = 0;
    if (!stats)
        return trp__fail(TRP_E_MEMORY, "no memory for the figures of the devices");
    trp__lock_take(&system->lock); /* so that no device is closed meanwhile */
    for (uint32_t i = 0; i < TRP__DEVICES; i++) {
        trp_device *device = system->device[i];
        if (device && atomic_load_explicit(&device->observable, memory_order_acquire))
            trp__view_read(&device->observe.view, &stats[count++]);
    }
    trp__lock_drop(&system->lock);
    status = trp_stats_metrics(stats, count, out, size, needed);
    free(stats);
    return status;
}
