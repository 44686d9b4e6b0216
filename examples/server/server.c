/* An inference server: clients send rows over TCP, the server multiplies them in batches, and its
 * worker may die at any time without a client noticing. See docs/recipes/server.md.
 *
 *     server WEIGHTS.safetensors [-port N] [-thread]
 *
 * The file has f32 arrays w1 (hidden x inputs), b1 (hidden), w2 (outputs x hidden), b2 (outputs);
 * the answer to x is w2 relu(w1 x + b1) + b2. Port 0, the default, lets the kernel choose one.
 * SIGTERM and SIGINT end the server once all that has come in is answered. */
#include "protocol.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <troupe/troupe.h>
#include <unistd.h>

enum {
    ROWS = 16,         /* of a batch. All batches have one shape, so that one plan serves them */
    BATCHES = 2,       /* one is computed while the next one fills */
    TRIES = 20,        /* of a batch that fails because of faults, its own or not */
    CONNECTIONS = 512, /* more are closed at once; each has a descriptor */
    HTTP_BYTES = 4096, /* of a request for metrics */
    STOP_MS = 5000,    /* how long clients may take to fetch their last answers */
};

typedef struct connection {
    int fd; /* -1: the client has gone while its request was in a batch */
    enum { READING, COMPUTING, REPLYING } state;
    size_t done;            /* bytes read of the request, or sent of the reply */
    unsigned char *request; /* head and input, or a request for metrics */
    unsigned char *reply;   /* head and output, or metrics */
    size_t reply_bytes;
    struct connection *next; /* in the line of those that wait for a batch */
} connection;

typedef struct batch {
    connection *from[ROWS];
    int rows;       /* 0: the batch is free */
    int unfinished; /* requests to Troupe whose end has not come from the queue */
    int tries;
    trp_error error; /* of the first that failed; status 0: none */
    trp_buffer x, hidden, y;
    float *in, *out; /* ROWS rows */
} batch;

static struct {
    int64_t inputs, hidden, outputs;
    trp_buffer weights;      /* sealed: no fault and no stray kernel can change them */
    uint64_t w1, b1, w2, b2; /* where each begins */
} model;

static trp_system *sys;
static trp_device *device;
static trp_actor *matmul;
static trp_queue *queue;
static batch batches[BATCHES];
static connection *first_waiting, **last_waiting = &first_waiting;
static int loop, listener, signals, connections, replying;
static bool stopping;
static unsigned long long answers, batches_sent, retries;

static void need(trp_status status, const char *doing)
{
    if (status == TRP_OK)
        return;
    fprintf(stderr, "%s: %s (%s)\n", doing, trp_error_message(), trp_status_name(status));
    exit(1); /* the worker ends with us */
}

static void need_system(int result, const char *doing)
{
    if (result >= 0)
        return;
    perror(doing);
    exit(1);
}

/* ---- the model ---- */

static void load_model(const char *path)
{
    static const char *const names[] = {"w1", "b1", "w2", "b2"};
    trp_io_file *file = NULL;
    trp_io_array array[4];
    uint64_t index[4], offset[4];
    need(trp_io_open(path, &file), "weights");
    for (int i = 0; i < 4; i++) {
        need(trp_io_find(file, names[i], &index[i]), "weights");
        need(trp_io_get(file, index[i], &array[i]), "weights");
    }
    model.hidden = array[0].dim[0];
    model.inputs = array[0].dim[1];
    model.outputs = array[2].dim[0];
    for (int i = 0; i < 4; i++) {
        const int64_t rows = i < 2 ? model.hidden : model.outputs;
        const int64_t columns = i == 0 ? model.inputs : model.hidden;
        const bool weight = i % 2 == 0;
        if (array[i].type != TRP_F32 || array[i].rank != (weight ? 2 : 1) || rows < 1 ||
            array[i].dim[0] != rows || (weight && (columns < 1 || array[i].dim[1] != columns))) {
            fprintf(stderr, "%s: %s is not f32 of the expected shape\n", path, names[i]);
            exit(1);
        }
    }
    need(trp_io_load_sealed(file, device, index, 4, NULL, &model.weights, offset), "weights");
    model.w1 = offset[0], model.b1 = offset[1], model.w2 = offset[2], model.b2 = offset[3];
    trp_io_close(file);
}

/* y = activation(x w' + b) for ROWS rows. */
static trp_status layer(batch *b, const char *label, trp_buffer x, int64_t columns, uint64_t w,
                        uint64_t bias, trp_activation activation, trp_buffer y, int64_t outputs)
{
    const trp_matmul_matrix row_major = {.type = TRP_F32, .order = TRP_ROW_MAJOR};
    trp_matmul_request r = {.header.label = label, .m = ROWS, .n = outputs, .k = columns};
    r.a = r.b = r.d = row_major;
    r.a.buffer = x;
    r.b.buffer = model.weights, r.b.offset = w;
    r.trans_b = TRP_T;
    r.bias = (trp_matmul_vector){.buffer = model.weights, .offset = bias, .type = TRP_F32};
    r.activation = activation;
    r.d.buffer = y;
    return trp_matmul(matmul, &r, &(trp_completion){.queue = queue, .user_data = b});
}

/* ---- batches ---- */

static void note_failure(batch *b, const trp_error *error)
{
    if (b->error.status == TRP_OK || b->error.status == TRP_E_DEPENDENCY)
        b->error = *error; /* what depends on a failed request says less than that one */
}

/* Sends a batch, from the input on: after a fault, contents on the device may be lost, but `in` is
 * the program's own. Every end is asked for, so that none is outstanding when the batch is sent
 * again, or its memory used for another. */
static void send_batch(batch *b)
{
    const uint64_t in_bytes = sizeof(float) * (uint64_t)(ROWS * model.inputs);
    const uint64_t out_bytes = sizeof(float) * (uint64_t)(ROWS * model.outputs);
    trp_completion end = {.queue = queue, .user_data = b};
    trp_status status = TRP_OK;
    b->error.status = TRP_OK;
    b->tries++;
    batches_sent++;
    for (int step = 0; step < 4 && status == TRP_OK; step++) {
        if (step == 0)
            status = trp_write(device, b->x, 0, b->in, in_bytes, &end);
        else if (step == 1)
            status = layer(b, "layer 1", b->x, model.inputs, model.w1, model.b1,
                           TRP_ACTIVATION_RELU, b->hidden, model.hidden);
        else if (step == 2)
            status = layer(b, "layer 2", b->hidden, model.hidden, model.w2, model.b2,
                           TRP_ACTIVATION_NONE, b->y, model.outputs);
        else
            status = trp_read(device, b->y, 0, b->out, out_bytes, &end);
        b->unfinished += status == TRP_OK;
    }
    if (status != TRP_OK) /* refused: nothing was queued by that call */
        note_failure(b, trp_error_last());
}

/* Whether another try may succeed: the fault need not have been the batch's own. */
static bool may_retry(trp_status status)
{
    return status == TRP_E_FAULT || status == TRP_E_LOST || status == TRP_E_DEPENDENCY ||
           status == TRP_E_LIBRARY || status == TRP_E_MEMORY;
}

static void start_reply(connection *c);

/* Called when no request of the batch is outstanding: sends it again, or answers its clients. */
static void finish_batch(batch *b)
{
    while (b->unfinished == 0 && may_retry(b->error.status) && b->tries < TRIES) {
        retries++;
        send_batch(b);
    }
    if (b->unfinished > 0)
        return;
    const trp_status status = b->error.status;
    if (status != TRP_OK)
        fprintf(stderr, "batch of %d: %s (%s)\n", b->rows, b->error.message,
                trp_status_name(status));
    const size_t row = sizeof(float) * (size_t)model.outputs;
    for (int i = 0; i < b->rows; i++) {
        connection *c = b->from[i];
        request_head head;
        memcpy(&head, c->request, sizeof head);
        memcpy(c->reply, &(reply_head){status, head.number}, sizeof(reply_head));
        if (status == TRP_OK)
            memcpy(c->reply + sizeof(reply_head), b->out + i * model.outputs, row);
        else
            memset(c->reply + sizeof(reply_head), 0, row);
        c->reply_bytes = sizeof(reply_head) + row;
        answers++;
        start_reply(c);
    }
    b->rows = 0;
    if (status == TRP_E_DEVICE_DOWN)
        exit(1); /* whoever supervises this process starts another */
}

/* Fills free batches with those that wait. What comes while all are under way makes the next one
 * fuller, so batches grow with the load. */
static void fill_batches(void)
{
    for (batch *b = batches; b < batches + BATCHES && first_waiting; b++) {
        if (b->rows > 0)
            continue;
        for (; b->rows < ROWS && first_waiting; b->rows++) {
            connection *c = first_waiting;
            first_waiting = c->next;
            b->from[b->rows] = c;
            memcpy(b->in + b->rows * model.inputs, c->request + sizeof(request_head),
                   sizeof(float) * (size_t)model.inputs);
        }
        if (!first_waiting)
            last_waiting = &first_waiting;
        b->tries = 0;
        send_batch(b);
        if (b->unfinished == 0)
            finish_batch(b);
    }
}

static void take_ends(void)
{
    trp_event event;
    while (trp_queue_next(queue, 0, &event) == TRP_OK) {
        batch *b = event.user_data;
        if (event.status != TRP_OK)
            note_failure(b, &event.error);
        if (--b->unfinished == 0)
            finish_batch(b);
    }
}

/* ---- connections ---- */

static void watch(connection *c, uint32_t events)
{
    struct epoll_event interest = {.events = events, .data.ptr = c};
    need_system(epoll_ctl(loop, EPOLL_CTL_MOD, c->fd, &interest), "epoll_ctl");
}

static void hang_up(connection *c)
{
    if (c->fd >= 0) {
        /* Closing alone does not end the interest while a worker is being started, for until it
         * executes its program it has copies of all descriptors. */
        epoll_ctl(loop, EPOLL_CTL_DEL, c->fd, NULL);
        close(c->fd);
        connections--;
    }
    c->fd = -1;
    replying -= c->state == REPLYING;
    if (c->state == COMPUTING)
        return; /* a batch has it; start_reply() ends it */
    free(c->request);
    free(c->reply);
    free(c);
}

static bool asks_for_metrics(const connection *c)
{
    return memcmp(c->request, "GET ", 4) == 0;
}

static void send_reply(connection *c)
{
    while (c->done < c->reply_bytes) {
        const ssize_t n = send(c->fd, c->reply + c->done, c->reply_bytes - c->done, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            watch(c, EPOLLOUT);
            return;
        }
        if (n < 0) {
            hang_up(c);
            return;
        }
        c->done += (size_t)n;
    }
    if (asks_for_metrics(c)) {
        hang_up(c);
        return;
    }
    replying--;
    c->state = READING;
    c->done = 0;
    watch(c, EPOLLIN);
}

static void start_reply(connection *c)
{
    c->state = REPLYING;
    c->done = 0;
    replying++;
    if (c->fd < 0)
        hang_up(c);
    else
        send_reply(c);
}

/* The library's metrics, and three of the server's own, for Prometheus. */
static void reply_metrics(connection *c)
{
    enum { OWN = 1024 };
    size_t size = 0;
    trp_system_metrics(sys, NULL, 0, &size);
    char *text = calloc(1, size + OWN); /* numbers may get longer between the calls */
    if (text && trp_system_metrics(sys, text, size + OWN / 2, NULL) == TRP_OK)
        snprintf(text + strlen(text), OWN / 2,
                 "# TYPE server_answers_total counter\nserver_answers_total %llu\n"
                 "# TYPE server_batches_total counter\nserver_batches_total %llu\n"
                 "# TYPE server_retries_total counter\nserver_retries_total %llu\n",
                 answers, batches_sent, retries);
    unsigned char *reply = text ? realloc(c->reply, size + OWN + 256) : NULL;
    if (!reply) {
        free(text);
        hang_up(c);
        return;
    }
    c->reply = reply;
    c->reply_bytes = (size_t)sprintf((char *)reply,
                                     "HTTP/1.0 200 OK\r\n"
                                     "Content-Type: text/plain; version=0.0.4\r\n"
                                     "Content-Length: %zu\r\n\r\n%s",
                                     strlen(text), text);
    free(text);
    start_reply(c);
}

static void read_request(connection *c)
{
    const uint32_t magic = REQUEST_MAGIC;
    size_t all = sizeof(request_head) + sizeof(float) * (size_t)model.inputs;
    if (c->done >= 4 && asks_for_metrics(c))
        all = HTTP_BYTES - 1;
    const ssize_t n = recv(c->fd, c->request + c->done, all - c->done, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    c->done += n > 0 ? (size_t)n : 0;
    const bool metrics = c->done >= 4 && asks_for_metrics(c);
    if (n <= 0 || (c->done >= 4 && !metrics && memcmp(c->request, &magic, sizeof magic) != 0) ||
        (metrics && c->done >= HTTP_BYTES - 1)) {
        hang_up(c);
    } else if (metrics) {
        c->request[c->done] = 0;
        if (strstr((char *)c->request, "\r\n\r\n"))
            reply_metrics(c);
    } else if (c->done == all) {
        c->state = COMPUTING;
        watch(c, 0); /* only its end is looked for until it has its answer */
        c->next = NULL;
        *last_waiting = c;
        last_waiting = &c->next;
    }
}

static void accept_all(void)
{
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        connection *c = connections < CONNECTIONS ? calloc(1, sizeof *c) : NULL;
        if (!c) {
            close(fd);
            continue;
        }
        c->fd = fd;
        c->request =
            calloc(1, sizeof(request_head) + sizeof(float) * (size_t)model.inputs + HTTP_BYTES);
        c->reply = malloc(sizeof(reply_head) + sizeof(float) * (size_t)model.outputs);
        struct epoll_event interest = {.events = EPOLLIN, .data.ptr = c};
        connections++;
        if (!c->request || !c->reply || epoll_ctl(loop, EPOLL_CTL_ADD, fd, &interest) != 0)
            hang_up(c);
    }
}

static void on_connection(connection *c, uint32_t events)
{
    if (c->state == COMPUTING) {
        if (events & (EPOLLHUP | EPOLLERR))
            hang_up(c);
    } else if (c->state == REPLYING) {
        send_reply(c);
    } else if (stopping) {
        hang_up(c);
    } else {
        read_request(c);
    }
}

/* ---- the program ---- */

static void add_to_loop(int fd, void *which)
{
    struct epoll_event interest = {.events = EPOLLIN, .data.ptr = which};
    need_system(epoll_ctl(loop, EPOLL_CTL_ADD, fd, &interest), "epoll_ctl");
}

static int listen_on(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t size = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    need_system(listener, "socket");
    need_system(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)), "socket");
    need_system(bind(listener, (struct sockaddr *)&at, sizeof at), "bind");
    need_system(listen(listener, 128), "listen");
    need_system(getsockname(listener, (struct sockaddr *)&at, &size), "getsockname");
    return ntohs(at.sin_port);
}

static void create_batches(void)
{
    const uint64_t row = ROWS * sizeof(float);
    for (batch *b = batches; b < batches + BATCHES; b++) {
        need(trp_buffer_create(device, row * (uint64_t)model.inputs, &b->x), "buffer");
        need(trp_buffer_create(device, row * (uint64_t)model.hidden, &b->hidden), "buffer");
        need(trp_buffer_create(device, row * (uint64_t)model.outputs, &b->y), "buffer");
        b->in = calloc(ROWS, sizeof(float) * (size_t)model.inputs);
        b->out = calloc(ROWS, sizeof(float) * (size_t)model.outputs);
        if (!b->in || !b->out)
            need_system(-1, "memory");
        b->rows = 0;
        send_batch(b); /* plans are made before clients come */
    }
    need(trp_device_drain(device, TRP_FOREVER), "the first batch");
    take_ends();
    for (batch *b = batches; b < batches + BATCHES; b++)
        if (b->error.status != TRP_OK) {
            fprintf(stderr, "the first batch: %s\n", b->error.message);
            exit(1);
        }
}

/* No more connections and requests. */
static void stop(void)
{
    stopping = true;
    epoll_ctl(loop, EPOLL_CTL_DEL, signals, NULL);
    epoll_ctl(loop, EPOLL_CTL_DEL, listener, NULL);
    close(listener);
}

/* Whether something has come in that is not answered. */
static bool busy(void)
{
    bool computing = first_waiting != NULL;
    for (batch *b = batches; b < batches + BATCHES; b++)
        computing = computing || b->rows > 0;
    return computing || replying > 0;
}

static void serve(void)
{
    struct epoll_event ready[64];
    while (!stopping || busy()) {
        const int count = epoll_wait(loop, ready, 64, stopping ? STOP_MS : -1);
        if (count == 0)
            return; /* clients that do not fetch their answers */
        for (int i = 0; i < count; i++) {
            void *which = ready[i].data.ptr;
            if (which == &listener)
                accept_all();
            else if (which == &signals)
                stop();
            else if (which != queue)
                on_connection(which, ready[i].events);
        }
        take_ends(); /* after the events, since it may end connections that they name */
        fill_batches();
    }
}

int main(int argc, char **argv)
{
    int port = 0;
    bool thread = false, valid = argc > 1;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "-port") == 0 && i + 1 < argc)
            port = atoi(argv[++i]);
        else if (strcmp(argv[i], "-thread") == 0)
            thread = true;
        else
            valid = false;
    }
    if (!valid) {
        fprintf(stderr, "usage: server WEIGHTS.safetensors [-port N] [-thread]\n");
        return 2;
    }
    /* On the host, threads cost small products more than they save. A worker inherits this. */
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    sigset_t ends;
    sigemptyset(&ends), sigaddset(&ends, SIGTERM), sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    need_system(signals = signalfd(-1, &ends, SFD_CLOEXEC), "signalfd");
    need_system(loop = epoll_create1(EPOLL_CLOEXEC), "epoll");

    /* A server goes on for as long as workers can be made, however often they die, and a request
     * that hangs costs its worker. */
    const trp_device_options options = {.isolation =
                                            thread ? TRP_ISOLATION_THREAD : TRP_ISOLATION_PROCESS,
                                        .restart_budget = 1000,
                                        .deadline_ns = thread ? 0 : 10000000000};
    need(trp_system_create(NULL, &sys), "system");
    need(trp_device_open(sys, &options, &device), "device");
    need(trp_actor_create(device, &(trp_actor_options){.kind = "matmul"}, &matmul), "actor");
    need(trp_queue_create(sys, &queue), "queue");
    load_model(argv[1]);
    create_batches();
    port = listen_on(port);
    add_to_loop(trp_queue_fd(queue), queue);
    add_to_loop(listener, &listener);
    add_to_loop(signals, &signals);
    printf("ready on port %d\n", port);
    fflush(stdout);

    serve();
    printf("%llu answers in %llu batches, %llu of them sent again\n", answers, batches_sent,
           retries);
    trp_actor_destroy(matmul);
    trp_device_close(device);
    need(trp_queue_destroy(queue), "queue");
    need(trp_system_destroy(sys), "system");
    return 0;
}
