/* Functions of the fake driver that enqueue work in a stream. */
#include "support/fake_cuda/fake.h"

#include <string.h>

static int enqueue(trp__cu_stream stream, const fake_op *op)
{
    fake_stream *s = fake_stream_get(stream);
    return fake_leave(s ? fake_submit(s, op) : FAKE_ERROR_INVALID_HANDLE);
}

static trp__cu_result enqueue_word(trp__cu_stream stream, fake_op_kind kind,
                                   trp__cu_address address, uint64_t value, unsigned int flags)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    /* The flags are WAIT_VALUE_GEQ and WRITE_VALUE_DEFAULT; no other flag is used. */
    if (flags != 0 || address % 8 != 0 || !fake_word(address, kind == FAKE_OP_WRITE))
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    return enqueue(stream, &(fake_op){.kind = kind, .word = {.address = address, .value = value}});
}

trp__cu_result cuStreamWriteValue64_v2(trp__cu_stream stream, trp__cu_address address,
                                       uint64_t value, unsigned int flags)
{
    return enqueue_word(stream, FAKE_OP_WRITE, address, value, flags);
}

trp__cu_result cuStreamWaitValue64_v2(trp__cu_stream stream, trp__cu_address address,
                                      uint64_t value, unsigned int flags)
{
    return enqueue_word(stream, FAKE_OP_WAIT, address, value, flags);
}

trp__cu_result cuMemcpyAsync(trp__cu_address to, trp__cu_address from, size_t bytes,
                             trp__cu_stream stream)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    /* The driver would copy from pageable memory, too, and wait for it; no caller here may. */
    if (!fake_known(to, bytes) || !fake_known(from, bytes))
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    return enqueue(
        stream, &(fake_op){.kind = FAKE_OP_COPY, .copy = {.to = to, .from = from, .bytes = bytes}});
}

/* Copies row by row. */
trp__cu_result cuMemcpy2DAsync_v2(const trp__cu_memcpy_2d *c, trp__cu_stream stream)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    if (!c || c->srcMemoryType != TRP__CU_MEMORYTYPE_UNIFIED ||
        c->dstMemoryType != TRP__CU_MEMORYTYPE_UNIFIED || c->srcXInBytes || c->srcY ||
        c->dstXInBytes || c->dstY || c->srcPitch < c->WidthInBytes ||
        c->dstPitch < c->WidthInBytes || c->srcPitch > INT32_MAX || c->dstPitch > INT32_MAX ||
        c->Height == 0)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < c->Height; i++) {
        const trp__cu_address to = c->dstDevice + i * c->dstPitch;
        const trp__cu_address from = c->srcDevice + i * c->srcPitch;
        if (i > 0 && (result = fake_enter(FAKE_NEEDS_CONTEXT)))
            return result;
        if (!fake_known(to, c->WidthInBytes) || !fake_known(from, c->WidthInBytes))
            return fake_leave(FAKE_ERROR_INVALID_VALUE);
        result =
            enqueue(stream, &(fake_op){.kind = FAKE_OP_COPY,
                                       .copy = {.to = to, .from = from, .bytes = c->WidthInBytes}});
        if (result)
            return result;
    }
    return result;
}

/* Copies from or to pageable memory through the default stream, and waits. */
static int copy_now(const fake_op *op)
{
    fake_stream *s = fake_stream_get(NULL);
    if (!s)
        return fake_leave(FAKE_ERROR_OUT_OF_MEMORY);
    int result = fake_submit(s, op);
    return fake_leave(result ? result : fake_stream_drain(s));
}

trp__cu_result cuMemcpyHtoD_v2(trp__cu_address to, const void *from, size_t bytes)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    if (!fake_known(to, bytes) || (bytes > 0 && !from))
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    return copy_now(
        &(fake_op){.kind = FAKE_OP_COPY, .copy = {.to = to, .bytes = bytes, .host_from = from}});
}

trp__cu_result cuMemcpyDtoH_v2(void *to, trp__cu_address from, size_t bytes)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    if (!fake_known(from, bytes) || (bytes > 0 && !to))
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    return copy_now(
        &(fake_op){.kind = FAKE_OP_COPY, .copy = {.from = from, .bytes = bytes, .host_to = to}});
}

static trp__cu_result enqueue_fill(trp__cu_address to, uint32_t value, uint32_t width, size_t count,
                                   trp__cu_stream stream)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    if (to % width != 0 || count > SIZE_MAX / width || !fake_known(to, count * width))
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    return enqueue(stream, &(fake_op){.kind = FAKE_OP_FILL,
                                      .fill = {
                                          .to = to,
                                          .count = count,
                                          .value = value,
                                          .width = width,
                                      }});
}

trp__cu_result cuMemsetD8Async(trp__cu_address to, unsigned char value, size_t count,
                               trp__cu_stream stream)
{
    return enqueue_fill(to, value, 1, count, stream);
}

trp__cu_result cuMemsetD16Async(trp__cu_address to, unsigned short value, size_t count,
                                trp__cu_stream stream)
{
    return enqueue_fill(to, value, 2, count, stream);
}

trp__cu_result cuMemsetD32Async(trp__cu_address to, unsigned int value, size_t count,
                                trp__cu_stream stream)
{
    return enqueue_fill(to, value, 4, count, stream);
}

int fake_cuda_enqueue(trp__cu_stream stream, void (*run)(void *arguments), const void *arguments,
                      size_t bytes)
{
    fake_op op = {.kind = FAKE_OP_FUNCTION, .function = {.run = run}};
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    if (bytes > sizeof op.function.arguments)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    if (bytes > 0)
        memcpy(op.function.arguments, arguments, bytes);
    return enqueue(stream, &op);
}
