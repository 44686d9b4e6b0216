#include "support/dnn_bed.h"

enum { CHANNELS = 16, SIDE = 6 };

static void enter(db_bed *b)
{
    b->k.world = h_open(&b->options);
    b->dnn = h_actor(b->k.world.device, "dnn");
}

db_bed db_open(const trp_device_options *options, const char *takes)
{
    db_bed b = {.options = options ? *options : h_options()};
    h_kernels_make_folder(&b.k);
    h_kernels_set(&b.k, "cudnn_takes", takes);
    enter(&b);
    return b;
}

void db_close(db_bed *b)
{
    h_kernels_close(&b->k);
}

void db_reopen(db_bed *b)
{
    h_close(&b->k.world);
    enter(b);
}

trp_buffer db_buffer(const db_bed *b, size_t count, uint16_t value)
{
    uint16_t *data = h_malloc(count * sizeof *data);
    for (size_t i = 0; i < count; i++)
        data[i] = value;
    const trp_buffer buffer = h_buffer(b->k.world.device, count * sizeof *data);
    h_write(b->k.world.device, buffer, 0, data, count * sizeof *data);
    free(data);
    return buffer;
}

/* Graphs. */

static trp_dnn_tensor image(trp_buffer buffer, int64_t n, int64_t c, int64_t h, int64_t w)
{
    return (trp_dnn_tensor){.type = TRP_F16, .rank = 4, .dim = {n, c, h, w}, .buffer = buffer};
}

/* Sends relu(conv(1, 1) + 1), which is 145 in the middle: three nodes. */
static trp_status send_conv(const db_bed *b, int64_t n, const trp_dnn_options *options,
                            trp_buffer y, const trp_buffer in[3], trp_completion *done)
{
    const trp_dnn_tensor tensors[] = {{0},
                                      image(in[0], n, CHANNELS, SIDE, SIDE),
                                      image(in[1], CHANNELS, CHANNELS, 3, 3),
                                      {0},
                                      image(in[2], 1, CHANNELS, 1, 1),
                                      {0},
                                      image(y, n, CHANNELS, SIDE, SIDE)};
    const trp_dnn_node nodes[] = {
        {.kind = TRP_DNN_CONV_FORWARD,
         .x = 1,
         .w = 2,
         .y = 3,
         .pre_pad = {1, 1},
         .post_pad = {1, 1}},
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_ADD, .x = 3, .b = 4, .y = 5},
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_RELU, .x = 5, .y = 6}};
    const trp_dnn_graph_request r = {.header.deadline_ns = b->deadline_ns,
                                     .tensors = tensors,
                                     .tensor_count = 7,
                                     .nodes = nodes,
                                     .node_count = 3,
                                     .options = *options};
    return trp_dnn_graph(b->dnn, &r, done);
}

static void fill_inputs(const db_bed *b, size_t count, trp_buffer in[3])
{
    in[0] = db_buffer(b, count, 0x3c00);
    in[1] = db_buffer(b, CHANNELS * CHANNELS * 9, 0x3c00);
    in[2] = db_buffer(b, CHANNELS, 0x3c00);
}

trp_completion db_begin_conv(const db_bed *b, int64_t n)
{
    const size_t count = (size_t)n * CHANNELS * SIDE * SIDE;
    trp_buffer in[3], y = db_buffer(b, count, 0x7e00);
    trp_completion done = {0};
    fill_inputs(b, count, in);
    H_OK(send_conv(b, n, &(trp_dnn_options){0}, y, in, &done));
    return done;
}

trp_status db_conv(const db_bed *b, int64_t n, trp_dnn_options options, trp_dnn_ran *ran,
                   trp_error *error)
{
    const size_t count = (size_t)n * CHANNELS * SIDE * SIDE, middle = count - SIDE * SIDE / 2 - 4;
    trp_buffer in[3], y = db_buffer(b, count, 0x7e00);
    uint16_t *got = h_malloc(count * sizeof *got);
    trp_completion done = {0};
    fill_inputs(b, count, in);
    *ran = (trp_dnn_ran){.parts = 99};
    options.ran = ran;
    H_OK(send_conv(b, n, &options, y, in, &done));
    trp_status status = h_await(done.future, error);
    if (status == TRP_OK) { /* after a fault nobody may read what the dead worker wrote */
        h_read(b->k.world.device, y, 0, got, count * sizeof *got);
        H_EQUAL(got[0], 0x5410);      /* 4 taps of 16: 64, and 1 */
        H_EQUAL(got[middle], 0x5888); /* 9 of them: 144, and 1 */
    }
    free(got);
    for (int i = 0; i < 3; i++)
        H_OK(trp_buffer_free(b->k.world.device, in[i]));
    H_OK(trp_buffer_free(b->k.world.device, y));
    return status;
}
