/* Runs the fast kernels of the dnn actor, and those of the random actor, on the processor: see device.hpp. */
#include "support/fake_cuda/device.hpp"

#define _Alignas       alignas
#define _Static_assert static_assert
#include "support/fake_cuda/device_kernels.h"

extern "C" {
#include "support/fake_cuda/hooks.h"
}

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <ucontext.h>
#include <vector>

/* The kernels themselves, compiled as C++. */
#include "actors/dnn/kernels/norm/batch_slices.cuh"
#include "actors/dnn/kernels/map/map.cuh"
#include "actors/dnn/kernels/move/move.cuh"
#include "actors/dnn/kernels/multiply/multiply.cuh"
#include "actors/dnn/kernels/map/ready_draws.cuh"
#include "actors/dnn/kernels/map/ready_units.cuh"
#include "actors/dnn/kernels/reduce/reduce_packs.cuh"

#include "actors/dnn/kernels/attention/bf16_128.cuh"
#include "actors/dnn/kernels/attention/bf16_64.cuh"
#include "actors/dnn/kernels/attention/f16_128.cuh"
#include "actors/dnn/kernels/attention/f16_64.cuh"
#include "actors/dnn/kernels/attention/f32_128.cuh"
#include "actors/dnn/kernels/attention/f32_256.cuh"
#include "actors/dnn/kernels/attention/f32_64.cuh"
#include "actors/dnn/kernels/attention/f64_128.cuh"
#include "actors/dnn/kernels/attention/f64_256.cuh"
#include "actors/dnn/kernels/attention/f64_64.cuh"
#include "actors/dnn/kernels/norm/norm.cuh"
#include "actors/dnn/kernels/optimizer/optimizer.cuh"
#include "actors/dnn/kernels/losses/losses.cuh"
#include "actors/dnn/kernels/rotary/rotary.cuh"
#include "actors/dnn/kernels/move/gather.cuh"
#include "actors/dnn/kernels/losses/entropy.cuh"
#include "actors/dnn/kernels/select/select.cuh"
#include "actors/dnn/kernels/pool/pool.cuh"
#include "actors/dnn/kernels/softmax/softmax.cuh"

#include "actors/random/kernels/random.cuh"

extern "C" void fake_fault(int result);

enum { ILLEGAL_ADDRESS = 700, MISALIGNED_ADDRESS = 716, STACK = 256 << 10, WARP = 32 };

thread_local fake_dim threadIdx, blockIdx, blockDim, gridDim;

namespace
{

/* The range that was reached last; kernels usually stay in it. */
struct window {
    fake_pin pin;
    uint64_t first, bytes;
    char *at;
    bool write;
};

enum { WINDOWS = 16 };

/* Switches fibers: in assembly on x86-64, as swapcontext() calls the kernel twice. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define FAKE_DEVICE_SWITCH 1
struct context {
    void *stack;
};

extern "C" void fake_device_switch(context *from, const context *to);
asm(".text\n"
    ".p2align 4\n"
    ".type fake_device_switch, @function\n"
    ".globl fake_device_switch\n"
    ".hidden fake_device_switch\n"
    "fake_device_switch:\n"
    "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq (%rsi), %rsp\n"
    "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
    "    ret\n"
    ".size fake_device_switch, . - fake_device_switch\n");

/* The switch pops six registers and the return address. */
void prepare(context *c, char *stack, size_t bytes, void (*run)(void))
{
    void **top = (void **)((uintptr_t)(stack + bytes) / 16 * 16) - 2;
    *top = (void *)run;
    for (int i = 0; i < 6; i++)
        *--top = nullptr;
    c->stack = top;
}

void go(context *from, const context *to)
{
    fake_device_switch(from, to);
}
#else
typedef ucontext_t context;

void prepare(context *c, char *stack, size_t bytes, void (*run)(void))
{
    getcontext(c);
    c->uc_stack.ss_sp = stack;
    c->uc_stack.ss_size = bytes;
    c->uc_link = nullptr;
    makecontext(c, run, 0);
}

void go(context *from, const context *to)
{
    swapcontext(from, to);
}
#endif

struct fiber {
    context where;
    bool done;
    unsigned block_meetings, warp_meetings; /* barriers that the fiber has reached */
};

struct launch {
    window windows[WINDOWS];
    int next_window;
    fiber *fibers;
    char *stacks, *shared;
    uint64_t *lanes;
    context home;
    unsigned threads, current;
    bool broken;
    void (*run)(const void *parameter);
    const void *parameter;
};

thread_local launch *now;

/* Blocks that run at the same time, each in its own thread. */
struct cluster {
    std::mutex lock;
    std::condition_variable changed;
    unsigned blocks, arrived, meetings;
    bool broken;
    std::vector<double> numbers; /* numbers that each block has published */
};

thread_local cluster *together;
thread_local unsigned rank;

/* A window extends from an address to the end of its page, or of the memory if that is nearer. */
enum { PAGE = 4096 };

void *window_of(uint64_t address, size_t bytes, bool write)
{
    for (window &w : now->windows) {
        if (w.at && address >= w.first && address + bytes <= w.first + w.bytes &&
            (w.write || !write))
            return w.at + (address - w.first);
    }
    return nullptr;
}

void drop_windows(void)
{
    for (window &w : now->windows) {
        if (w.at)
            fake_cuda_let_go(&w.pin);
        w.at = nullptr;
    }
}

void yield(void)
{
    launch *l = now;
    fiber &mine = l->fibers[l->current];
    const fake_dim thread = threadIdx;
    go(&mine.where, &l->home);
    threadIdx = thread;
}

void enter(void)
{
    now->run(now->parameter);
    now->fibers[now->current].done = true;
    for (;;)
        yield();
}

/* Returns whether every fiber of a range that has not ended has reached this barrier. */
bool all_there(unsigned first, unsigned end, unsigned fiber::*meetings, unsigned wanted)
{
    for (unsigned i = first; i < end && i < now->threads; i++) {
        if (!now->fibers[i].done && now->fibers[i].*meetings < wanted)
            return false;
    }
    return true;
}

void meet(unsigned first, unsigned end, unsigned fiber::*meetings)
{
    fiber &mine = now->fibers[now->current];
    const unsigned wanted = ++(mine.*meetings);
    while (!now->broken && !all_there(first, end, meetings, wanted))
        yield();
    if (now->broken)
        for (;;)
            yield();
}

void run_block(launch *l, unsigned threads, size_t shared_bytes)
{
    memset(l->shared, 0xdb, shared_bytes + 64);
    for (unsigned i = 0; i < threads; i++) {
        fiber &f = l->fibers[i];
        f.done = false;
        f.block_meetings = f.warp_meetings = 0;
        prepare(&f.where, l->stacks + (size_t)i * STACK, STACK, enter);
    }
    for (bool more = true; more && !l->broken;) {
        more = false;
        for (unsigned i = 0; i < threads && !l->broken; i++) {
            if (l->fibers[i].done)
                continue;
            more = true;
            l->current = i;
            threadIdx = {i, 0, 0};
            go(&l->home, &l->fibers[i].where);
        }
    }
}

} // namespace

void *fake_device_reach(uint64_t address, size_t bytes, bool write)
{
    void *found = window_of(address, bytes, write);
    if (found)
        return found;
    if (address % bytes != 0) {
        fake_fault(MISALIGNED_ADDRESS);
        now->broken = true;
    } else {
        window &w = now->windows[now->next_window];
        now->next_window = (now->next_window + 1) % WINDOWS;
        if (w.at)
            fake_cuda_let_go(&w.pin);
        size_t there = PAGE - address % PAGE;
        w.at = (char *)fake_cuda_reach_some(&w.pin, address, &there, write);
        w.first = address;
        w.bytes = there;
        w.write = write;
        if (w.at && there >= bytes)
            return w.at;
        if (w.at)
            fake_fault(ILLEGAL_ADDRESS);
        now->broken = true;
    }
    for (;;)
        yield();
}

void fake_device_sync(void)
{
    meet(0, now->threads, &fiber::block_meetings);
}

void fake_device_warp_sync(void)
{
    const unsigned first = now->current / WARP * WARP;
    meet(first, first + WARP, &fiber::warp_meetings);
}

uint64_t *fake_device_lanes(void)
{
    return now->lanes + now->current / WARP * WARP;
}

void *fake_device_shared(void)
{
    return (void *)(((uintptr_t)now->shared + 15) / 16 * 16);
}

void fake_device_cluster_meet(void)
{
    fake_device_sync();
    if (now->current == 0) {
        std::unique_lock<std::mutex> lock(together->lock);
        const unsigned meeting = together->meetings;
        if (++together->arrived == together->blocks) {
            together->arrived = 0;
            together->meetings++;
            together->changed.notify_all();
        }
        together->changed.wait(
            lock, [meeting] { return together->broken || together->meetings != meeting; });
        now->broken = now->broken || together->broken;
    }
    fake_device_sync();
}

double *fake_device_cluster_numbers(int block)
{
    return &together->numbers[(block < 0 ? rank : (unsigned)block) * TRP__CLUSTER_PLACES];
}

namespace
{

/* The grid of a launch, or consecutive blocks of it along x. */
struct blocks {
    void (*run)(const void *parameter);
    const void *parameter;
    unsigned grid[3], first[3], count[3];
    unsigned threads;
    size_t shared_bytes;
};

/* Returns false if a block has faulted. */
bool run_blocks(const blocks &b)
{
    launch l = {};
    now = &l;
    l.run = b.run;
    l.parameter = b.parameter;
    l.threads = b.threads;
    l.fibers = (fiber *)calloc(b.threads, sizeof *l.fibers);
    l.stacks = (char *)malloc((size_t)b.threads * STACK);
    l.shared = (char *)malloc(b.shared_bytes + 64);
    l.lanes = (uint64_t *)calloc(b.threads + WARP, sizeof *l.lanes);
    if (!l.fibers || !l.stacks || !l.shared || !l.lanes)
        abort();
    blockDim = {b.threads, 1, 1};
    gridDim = {b.grid[0], b.grid[1], b.grid[2]};
    for (unsigned z = 0; z < b.count[2]; z++) {
        for (unsigned y = 0; y < b.count[1]; y++) {
            for (unsigned x = 0; x < b.count[0] && !l.broken && !fake_cuda_stopping(); x++) {
                blockIdx = {b.first[0] + x, b.first[1] + y, b.first[2] + z};
                run_block(&l, b.threads, b.shared_bytes);
            }
        }
    }
    drop_windows();
    free(l.fibers);
    free(l.stacks);
    free(l.shared);
    free(l.lanes);
    now = nullptr;
    return !l.broken;
}

/* Runs the blocks of a cluster, which wait for each other. */
bool run_cluster(const blocks &all, unsigned first, unsigned count)
{
    cluster c;
    std::vector<std::thread> threads;
    c.blocks = count;
    c.arrived = c.meetings = 0;
    c.broken = false;
    c.numbers.resize(count * TRP__CLUSTER_PLACES);
    for (unsigned i = 0; i < count; i++) {
        threads.emplace_back([&all, &c, first, i] {
            blocks one = all;
            one.first[0] = first + i;
            one.count[0] = 1;
            together = &c;
            rank = i;
            if (!run_blocks(one)) {
                std::unique_lock<std::mutex> lock(c.lock);
                c.broken = true;
                c.changed.notify_all();
            }
        });
    }
    for (std::thread &t : threads)
        t.join();
    return !c.broken;
}

} // namespace

extern "C" void fake_device_run(void (*run)(const void *parameter), const void *parameter,
                                const unsigned grid[3], unsigned threads, size_t shared_bytes,
                                unsigned cluster)
{
    const blocks all = {run,
                        parameter,
                        {grid[0], grid[1], grid[2]},
                        {0, 0, 0},
                        {grid[0], grid[1], grid[2]},
                        threads,
                        shared_bytes};
    if (cluster <= 1) {
        run_blocks(all);
        return;
    }
    for (unsigned x = 0; x < grid[0] && !fake_cuda_stopping(); x += cluster) {
        if (!run_cluster(all, x, cluster)) {
            /* the block ran in another thread than the stream's, which must fault */
            fake_fault(ILLEGAL_ADDRESS);
            return;
        }
    }
}

#define RUN(name, type)                                                                            \
    extern "C" void fake_device_##name(const void *parameter)                                      \
    {                                                                                              \
        name(*(const type *)parameter);                                                            \
    }
FAKE_DEVICE_KERNELS(RUN)
