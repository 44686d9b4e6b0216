/* Clients of the server, which check every answer.
 *
 *     load -make WEIGHTS.safetensors
 *     load WEIGHTS.safetensors PORT [-clients N] [-requests N] [-pid PID -kills N [-every MS]]
 *
 * The first form writes a model. The second lets N clients send, each one request after the other,
 * at least N requests in all. With -pid it kills the worker of that server N times meanwhile, at
 * random moments that are MS apart in the mean. Exit status 1: an answer was wrong, or failed. */
#include "protocol.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <troupe/troupe.h>
#include <unistd.h>

enum { INPUTS = 256, HIDDEN = 1024, OUTPUTS = 64, QUESTIONS = 32, CLIENTS_MAX = 256 };

typedef struct client {
    pthread_t thread;
    uint64_t answers, wrong, failed;
    int64_t longest_ns;
    uint32_t waits[100]; /* answers by their time in ms; the last: that and more */
    float *question, *answer;
} client;

static client clients[CLIENTS_MAX];
static int port, client_count = 16;
static int64_t server, kills, every_ms = 30;
static uint64_t requests = 2000;
static _Atomic uint64_t sent;
static _Atomic bool killing;
static float *weights[4]; /* w1, b1, w2, b2 */
static const char *const names[] = {"w1", "b1", "w2", "b2"};
static const int64_t shapes[4][2] = {
    {HIDDEN, INPUTS}, {HIDDEN, 0}, {OUTPUTS, HIDDEN}, {OUTPUTS, 0}};

static int64_t elements(int i)
{
    return shapes[i][0] * (shapes[i][1] ? shapes[i][1] : 1);
}

static void need(trp_status status, const char *doing)
{
    if (status == TRP_OK)
        return;
    fprintf(stderr, "%s: %s (%s)\n", doing, trp_error_message(), trp_status_name(status));
    exit(1);
}

static void *need_memory(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory)
        exit(1);
    return memory;
}

/* From -7/8 to 7/8, in steps of 1/8: all sums are exact in f32, in any order, so that an answer is
 * right to the last bit or wrong. */
static float draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)((int)((*state >> 33) % 15) - 7) / 8;
}

static void make_weights(const char *path)
{
    trp_io_item item[4];
    uint64_t state = 1;
    for (int i = 0; i < 4; i++) {
        float *data = need_memory(sizeof(float) * (size_t)elements(i));
        for (int64_t k = 0; k < elements(i); k++)
            data[k] = draw(&state);
        item[i] = (trp_io_item){.data = data};
        item[i].array = (trp_io_array){.name = names[i], .type = TRP_F32};
        item[i].array.rank = shapes[i][1] ? 2 : 1;
        memcpy(item[i].array.dim, shapes[i], sizeof shapes[i]);
    }
    need(trp_io_save(path, item, 4, NULL), path);
    for (int i = 0; i < 4; i++)
        free((void *)item[i].data);
}

static void read_weights(const char *path)
{
    trp_io_file *file;
    need(trp_io_open(path, &file), path);
    for (int i = 0; i < 4; i++) {
        uint64_t index, bytes = sizeof(float) * (uint64_t)elements(i);
        weights[i] = need_memory(bytes);
        need(trp_io_find(file, names[i], &index), path);
        need(trp_io_read(file, index, weights[i], bytes, NULL), path);
    }
    trp_io_close(file);
}

/* What the server computes, in f64 and by a plain loop. */
static void compute(const float *x, float *y)
{
    double hidden[HIDDEN];
    for (int i = 0; i < HIDDEN; i++) {
        double sum = (double)weights[1][i];
        for (int k = 0; k < INPUTS; k++)
            sum += (double)weights[0][i * INPUTS + k] * (double)x[k];
        hidden[i] = sum > 0 ? sum : 0;
    }
    for (int i = 0; i < OUTPUTS; i++) {
        double sum = (double)weights[3][i];
        for (int k = 0; k < HIDDEN; k++)
            sum += (double)weights[2][i * HIDDEN + k] * hidden[k];
        y[i] = (float)sum;
    }
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int connect_to_server(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) != 0) {
        perror("connect");
        exit(1);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return fd;
}

static bool send_all(int fd, const void *data, size_t bytes)
{
    for (const char *at = data; bytes > 0;) {
        const ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* One request after the other, until enough are sent and the worker was killed often enough. */
static void *run_client(void *argument)
{
    client *c = argument;
    struct {
        request_head head;
        float x[INPUTS];
    } request = {.head.magic = REQUEST_MAGIC};
    struct {
        reply_head head;
        float y[OUTPUTS];
    } reply;
    const int fd = connect_to_server();
    while (atomic_load(&killing) || atomic_load(&sent) < requests) {
        const uint32_t number = ++request.head.number, which = number % QUESTIONS;
        memcpy(request.x, c->question + which * INPUTS, sizeof request.x);
        atomic_fetch_add(&sent, 1);
        const int64_t start = now_ns();
        if (!send_all(fd, &request, sizeof request) ||
            recv(fd, &reply, sizeof reply, MSG_WAITALL) != sizeof reply) {
            c->failed++; /* the server has hung up */
            break;
        }
        const int64_t ns = now_ns() - start;
        const size_t ms = (size_t)(ns / 1000000);
        c->waits[ms < 99 ? ms : 99]++;
        c->longest_ns = ns > c->longest_ns ? ns : c->longest_ns;
        c->answers++;
        c->failed += reply.head.status != TRP_OK;
        c->wrong += reply.head.number != number ||
                    (reply.head.status == TRP_OK &&
                     memcmp(reply.y, c->answer + which * OUTPUTS, sizeof reply.y) != 0);
    }
    close(fd);
    return NULL;
}

/* Kills the worker of the server, found as `troupe top` finds it. */
static void kill_workers(void)
{
    trp_observer *observer;
    trp_device_stats *stats = need_memory(sizeof *stats);
    size_t count;
    uint64_t state = (uint64_t)now_ns();
    int64_t last = 0;
    need(trp_observer_open(server, &observer), "observer");
    for (int64_t done = 0; done < kills;) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const int64_t ns = (int64_t)((state >> 33) % (uint64_t)(2 * every_ms * 1000)) * 1000;
        nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
        do
            need(trp_observer_read(observer, stats, 1, &count), "observer");
        while (count < 1 || stats->info.worker_pid <= 0 || stats->info.worker_pid == last);
        last = stats->info.worker_pid;
        done += kill((pid_t)last, SIGKILL) == 0;
    }
    trp_observer_close(observer);
    free(stats);
    atomic_store(&killing, false);
}

static int report(void)
{
    client all = {.answers = 0};
    for (int i = 0; i < client_count; i++) {
        all.answers += clients[i].answers;
        all.wrong += clients[i].wrong;
        all.failed += clients[i].failed;
        all.longest_ns =
            clients[i].longest_ns > all.longest_ns ? clients[i].longest_ns : all.longest_ns;
        for (int ms = 0; ms < 100; ms++)
            all.waits[ms] += clients[i].waits[ms];
    }
    printf("%" PRIu64 " answers to %d clients, %" PRIu64 " wrong, %" PRIu64 " failed; %" PRId64
           " workers killed; the longest wait %.2f ms\n",
           all.answers, client_count, all.wrong, all.failed, kills, (double)all.longest_ns / 1e6);
    printf("waits by ms:");
    for (int ms = 0; ms < 100; ms++)
        if (all.waits[ms] > 0)
            printf(" %d:%u", ms, all.waits[ms]);
    printf("\n");
    return all.wrong > 0 || all.failed > 0 || all.answers == 0;
}

static bool read_arguments(int argc, char **argv)
{
    for (int i = 3; i < argc; i += 2) {
        const int64_t value = i + 1 < argc ? atoll(argv[i + 1]) : 0;
        if (value < 1)
            return false;
        if (strcmp(argv[i], "-clients") == 0 && value <= CLIENTS_MAX)
            client_count = (int)value;
        else if (strcmp(argv[i], "-requests") == 0)
            requests = (uint64_t)value;
        else if (strcmp(argv[i], "-pid") == 0)
            server = value;
        else if (strcmp(argv[i], "-kills") == 0)
            kills = value;
        else if (strcmp(argv[i], "-every") == 0)
            every_ms = value;
        else
            return false;
    }
    return argc >= 3 && (kills == 0 || server > 0);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "-make") == 0) {
        make_weights(argv[2]);
        return 0;
    }
    if (!read_arguments(argc, argv)) {
        fprintf(stderr, "usage: see the top of load.c\n");
        return 2;
    }
    port = atoi(argv[2]);
    read_weights(argv[1]);
    uint64_t state = 2;
    for (int i = 0; i < client_count; i++) {
        client *c = &clients[i];
        c->question = need_memory(sizeof(float) * QUESTIONS * INPUTS);
        c->answer = need_memory(sizeof(float) * QUESTIONS * OUTPUTS);
        for (int k = 0; k < QUESTIONS * INPUTS; k++)
            c->question[k] = draw(&state);
        for (int k = 0; k < QUESTIONS; k++)
            compute(c->question + k * INPUTS, c->answer + k * OUTPUTS);
    }
    atomic_store(&killing, kills > 0);
    for (int i = 0; i < client_count; i++)
        if (pthread_create(&clients[i].thread, NULL, run_client, &clients[i]) != 0)
            exit(1);
    if (kills > 0)
        kill_workers();
    for (int i = 0; i < client_count; i++) {
        pthread_join(clients[i].thread, NULL);
        free(clients[i].question);
        free(clients[i].answer);
    }
    for (int i = 0; i < 4; i++)
        free(weights[i]);
    return report();
}
