/*
 * Fuzzes what looks into other processes: blocks whose content is anything, and memory files that
 * are not what they say. Whatever is there, reading ends, its result is in bounds, and its texts
 * are harmless; a wrong access is for the sanitizers to see.
 *
 *   observe_test [ITERATIONS [SEED]]
 */
#include "base/error.h"
#include "base/os/shm.h"
#include "client/observe/observe.h"
#include "support/harness.h"
#include "support/reference/random.h"

#include <troupe/troupe.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t rng;

/* Numbers near the edges as often as any others. */
static uint64_t odd_number(void)
{
    static const uint64_t edges[] = {0,     1,     2,     63,         64,        65,        4095,
                                     16383, 16384, 16385, UINT32_MAX, INT64_MAX, UINT64_MAX};
    uint64_t r = random_next(&rng);
    return r % 3 ? edges[r / 3 % (sizeof edges / sizeof *edges)] : random_next(&rng) >> r % 64;
}

static void scribble(void *memory, size_t bytes, uint32_t words)
{
    for (uint32_t i = 0; i < words; i++) {
        uint64_t value = odd_number();
        size_t at = random_next(&rng) % (bytes / 8) * 8;
        memcpy((char *)memory + at, &value, 8);
    }
}

static void require_text(const char *text, size_t size)
{
    size_t length = strnlen(text, size);
    H_CHECK(length < size);
    for (size_t i = 0; i < length; i++)
        H_CHECK((unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
}

static void require_sound(const trp_device_stats *s)
{
    static char text[1 << 22];
    size_t needed = 0;
    H_CHECK(s->actor_count <= TRP_STATS_ACTORS);
    require_text(s->info.name, sizeof s->info.name);
    require_text(s->program, sizeof s->program);
    for (uint32_t i = 0; i < s->actor_count; i++) {
        const trp_actor_stats *a = &s->actor[i];
        require_text(a->name, sizeof a->name);
        require_text(a->kind, sizeof a->kind);
        require_text(a->running, sizeof a->running);
        H_CHECK(a->id < TRP_STATS_ACTORS && (i == 0 || a->id > s->actor[i - 1].id));
        H_CHECK(a->queued <= TRP__SLOTS && a->in_flight <= TRP__SLOTS && a->done <= a->sent);
        H_CHECK((a->in_flight > 0) == (a->running[0] != '\0'));
        const uint64_t p50 = trp_latency_quantile(&a->running_time, NULL, 0.5),
                       p99 = trp_latency_quantile(&a->running_time, NULL, 0.99);
        H_CHECK(p50 <= p99 && p99 <= trp_latency_bound(TRP_LATENCY_BUCKETS - 2));
    }
    H_CHECK(trp_stats_metrics(s, 1, text, sizeof text, &needed) == TRP_OK);
    H_CHECK(strlen(text) == needed - 1);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        const char *end = strchr(line, '\n');
        H_CHECK(end && (*line == '#' || strncmp(line, "troupe_", 7) == 0));
    }
}

static void *zeroed_pages(size_t bytes)
{
    void *memory = aligned_alloc(4096, bytes);
    return memory ? memset(memory, 0, bytes) : NULL;
}

/* Blocks in plain memory. */
static void fuzz_view(uint64_t iterations)
{
    trp__stats *stats = zeroed_pages(TRP__STATS_BYTES);
    trp__control *control = zeroed_pages(TRP__CONTROL_BYTES);
    trp__reply *reply = zeroed_pages(TRP__REPLY_BYTES);
    trp__view *view = calloc(1, sizeof *view);
    trp_device_stats *out = malloc(sizeof *out);
    H_CHECK(stats && control && reply && view && out);
    for (uint64_t i = 0; i < iterations; i++) {
        if (random_next(&rng) % 8 == 0)
            memset(view->done, 0, sizeof view->done);
        view->stats = stats;
        view->control = random_next(&rng) % 8 ? control : NULL;
        view->reply = random_next(&rng) % 8 ? reply : NULL;
        scribble(stats, TRP__STATS_BYTES, 200);
        /* Of the large ones only what is read. */
        scribble(&control->resume_start, 4096, 20);
        for (int k = 0; k < 50; k++)
            scribble(&control->record[random_next(&rng) % 200], 64, 3);
        scribble(reply->issued, sizeof reply->issued, 30);
        scribble(&reply->timelines, sizeof reply->timelines, 30);
        atomic_store(&stats->slots, (uint32_t)(random_next(&rng) % 4 ? 200 : odd_number()));
        if (random_next(&rng) % 2)
            atomic_store(&stats->version, 2);
        for (uint32_t a = 0; a < TRP__ACTORS; a++) {
            if (random_next(&rng) % 16) /* an odd one makes a thousand readings */
                atomic_store(&stats->actor[a].version, 4);
        }
        trp__view_read(view, out);
        require_sound(out);
    }
    free(stats);
    free(control);
    free(reply);
    free(view);
    free(out);
}

/* Memory files that pretend. */

typedef struct pretence {
    int stats_fd, control_fd, reply_fd;
    trp__stats *stats;
    trp__control *control;
    trp__reply *reply;
} pretence;

static void *make(const char *name, uint64_t bytes, int *fd)
{
    void *map = NULL;
    trp_error error;
    if (trp__shm_create(name, bytes, true, fd, &map, &error) != TRP_OK) {
        fprintf(stderr, "observe: %s\n", error.message);
        abort();
    }
    return map;
}

static void name_file(trp__stats_file *file, int fd)
{
    struct stat st;
    H_CHECK(fstat(fd, &st) == 0);
    file->fd = fd;
    file->inode = st.st_ino;
}

static pretence begin_pretence(void)
{
    pretence p;
    p.stats = make(TRP__STATS_FILE, TRP__STATS_BYTES, &p.stats_fd);
    p.control = make("troupe-control", TRP__CONTROL_BYTES, &p.control_fd);
    p.reply = make("troupe-reply", TRP__REPLY_BYTES, &p.reply_fd);
    p.control->head.magic = p.reply->head.magic = TRP__MAGIC;
    p.control->head.abi = p.reply->head.abi = p.stats->head.abi = TRP__ABI;
    p.control->head.bytes = sizeof(trp__control);
    p.reply->head.bytes = sizeof(trp__reply);
    p.stats->head.bytes = sizeof(trp__stats);
    p.stats->head.magic = TRP__STATS_MAGIC;
    name_file(&p.stats->control, p.control_fd);
    name_file(&p.stats->reply, p.reply_fd);
    p.stats->state = TRP_DEVICE_READY;
    p.stats->actor[5].live = 1;
    p.stats->actor[5].tail = 7;
    return p;
}

static void end_pretence(pretence *p)
{
    munmap(p->stats, TRP__STATS_BYTES);
    munmap(p->control, TRP__CONTROL_BYTES);
    munmap(p->reply, TRP__REPLY_BYTES);
    close(p->stats_fd);
    close(p->control_fd);
    close(p->reply_fd);
}

static size_t devices_seen(trp_status wanted)
{
    static trp_device_stats out[2];
    trp_observer *o = NULL;
    size_t count = 0;
    H_CHECK(trp_observer_open(getpid(), &o) == TRP_OK);
    for (int i = 0; i < 2; i++) { /* also on what is attached already */
        H_CHECK(trp_observer_read(o, out, 2, &count) == wanted);
        for (size_t k = 0; k < count; k++)
            require_sound(&out[k]);
    }
    trp_observer_close(o);
    return count;
}

static void an_honest_one(void)
{
    pretence p = begin_pretence();
    H_CHECK(devices_seen(TRP_OK) == 1);
    end_pretence(&p);
    H_CHECK(devices_seen(TRP_OK) == 0);
}

static void other_versions(void)
{
    pretence p = begin_pretence();
    p.stats->head.magic++;
    H_CHECK(devices_seen(TRP_OK) == 0); /* not one of ours */
    p.stats->head.magic--;
    p.stats->head.abi++;
    memset(p.stats->head.version, '\n', sizeof p.stats->head.version);
    devices_seen(TRP_E_VERSION);
    H_CHECK(strstr(trp_error_message(), "???") && !strchr(trp_error_message(), '\n'));
    p.stats->head.abi--;
    p.stats->head.bytes = UINT64_MAX;
    devices_seen(TRP_E_VERSION);
    p.stats->head.bytes = sizeof(trp__stats);
    p.control->head.abi++;
    H_CHECK(devices_seen(TRP_OK) == 1); /* what can be had is shown */
    end_pretence(&p);
}

/* A memory file that could be cut while it is read; one that is too short. */
static void not_sealed(void)
{
    int fd = memfd_create(TRP__STATS_FILE, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    H_CHECK(fd >= 0);
    H_CHECK(devices_seen(TRP_OK) == 0);
    trp__block_head head = {.magic = TRP__STATS_MAGIC, .abi = TRP__ABI};
    H_CHECK(pwrite(fd, &head, sizeof head, 0) == sizeof head);
    H_CHECK(ftruncate(fd, TRP__STATS_BYTES) == 0);
    H_CHECK(devices_seen(TRP_OK) == 0);
    close(fd);
    fd = memfd_create(TRP__STATS_FILE, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    H_CHECK(ftruncate(fd, 4096) == 0);
    H_CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    devices_seen(TRP_E_VERSION);
    close(fd);
}

/* The blocks that it names are something else: nothing of it is opened, none of it blocks. */
static void other_files(void)
{
    pretence p = begin_pretence();
    int ends[2], null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    H_CHECK(pipe(ends) == 0 && null >= 0);
    int fds[] = {ends[0], ends[1], null, p.stats_fd, p.reply_fd, 99999};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        struct stat st = {0};
        fstat(fds[i], &st);
        p.stats->control.fd = p.stats->reply.fd = fds[i];
        p.stats->control.inode = p.stats->reply.inode = st.st_ino ? st.st_ino : 1;
        H_CHECK(devices_seen(TRP_OK) == 1);
        p.stats->control.fd = -(int)i;
        H_CHECK(devices_seen(TRP_OK) == 1);
    }
    close(ends[0]);
    close(ends[1]);
    close(null);
    end_pretence(&p);
}

static void scribbled(uint64_t iterations)
{
    pretence p = begin_pretence();
    for (uint64_t i = 0; i < iterations; i++) {
        scribble((char *)p.stats + sizeof p.stats->head, sizeof(trp__stats) - 48, 20);
        atomic_store(&p.stats->version, 2);
        for (uint32_t a = 0; a < TRP__ACTORS; a++)
            atomic_store(&p.stats->actor[a].version, 4);
        H_CHECK(devices_seen(TRP_OK) == 1);
    }
    end_pretence(&p);
}

int main(int argc, char **argv)
{
    uint64_t iterations = argc > 1 ? strtoull(argv[1], NULL, 0) : 100;
    rng = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)getpid() * 1000003;
    printf("observe: %llu iterations, seed %llu\n", (unsigned long long)iterations,
           (unsigned long long)rng);
    an_honest_one();
    other_versions();
    not_sealed();
    other_files();
    scribbled(iterations / 10);
    fuzz_view(iterations);
    return 0;
}
