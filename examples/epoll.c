/* A server's view: products in flight, their ends told through a file descriptor in an epoll loop.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <troupe/troupe.h>

#define N        256 /* of the square matrices */
#define PRODUCTS 32
#define BYTES    (sizeof(float) * N * N)

/* One product; its address travels as user_data and comes back with the end of the request. */
typedef struct product {
    int number;
    trp_buffer result;
} product;

static void need(trp_status status, const char *doing)
{
    if (status == TRP_OK)
        return;
    fprintf(stderr, "%s: %s (%s)\n", doing, trp_error_message(), trp_status_name(status));
    exit(1); /* the worker ends with us */
}

static trp_buffer identity_times(trp_device *device, float factor)
{
    static float host[N * N];
    trp_buffer buffer;
    trp_completion done = {0};
    for (int i = 0; i < N * N; i++)
        host[i] = i % (N + 1) == 0 ? factor : 0;
    need(trp_buffer_create(device, BYTES, &buffer), "buffer");
    need(trp_write(device, buffer, 0, host, BYTES, &done), "write");
    need(trp_await(done.future, TRP_FOREVER, NULL), "write"); /* host is used again */
    return buffer;
}

static void send_products(trp_actor *blas, trp_queue *queue, product *products)
{
    trp_device *device = trp_actor_device(blas);
    trp_gemm_request r = {.type = TRP_F32, .m = N, .n = N, .k = N};
    r.a = identity_times(device, 2);
    r.b = identity_times(device, 3);
    for (int i = 0; i < PRODUCTS; i++) {
        trp_completion end = {.queue = queue, .user_data = &products[i]};
        products[i].number = i;
        need(trp_buffer_create(device, BYTES, &products[i].result), "buffer");
        r.c = products[i].result;
        need(trp_gemm(blas, &r, &end), "product");
    }
}

/* Takes all that the queue holds; returns how many that were. */
static int take_completions(trp_device *device, trp_queue *queue)
{
    trp_event event;
    int count = 0;
    while (trp_queue_next(queue, 0, &event) == TRP_OK) {
        product *p = event.user_data;
        if (event.status != TRP_OK)
            printf("product %d: %s: %s\n", p->number, trp_status_name(event.status),
                   event.error.message);
        need(trp_buffer_free(device, p->result), "free");
        count++;
    }
    return count;
}

int main(void)
{
    trp_system *system;
    trp_device *device;
    trp_actor *blas;
    trp_queue *queue;
    static product products[PRODUCTS];

    need(trp_system_create(NULL, &system), "system");
    need(trp_device_open(system, NULL, &device), "device");
    need(trp_actor_create(device, &(trp_actor_options){.kind = "blas"}, &blas), "actor");
    need(trp_queue_create(system, &queue), "queue");

    int loop = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event interest = {.events = EPOLLIN, .data.ptr = queue};
    if (loop < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, trp_queue_fd(queue), &interest) != 0) {
        perror("epoll");
        return 1;
    }

    send_products(blas, queue, products);
    int wakeups = 0;
    for (int pending = PRODUCTS; pending > 0; wakeups++) {
        struct epoll_event ready; /* sockets and timers would stand in the same loop */
        if (epoll_wait(loop, &ready, 1, -1) == 1 && ready.data.ptr == queue)
            pending -= take_completions(device, queue);
    }
    printf("%d products, %d wake-ups\n", PRODUCTS, wakeups);

    trp_actor_destroy(blas);
    trp_device_close(device);
    need(trp_queue_destroy(queue), "queue");
    need(trp_system_destroy(system), "system");
    return 0;
}
