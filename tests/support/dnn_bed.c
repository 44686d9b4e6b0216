#include "support/dnn_bed.h"

static void enter(db_bed *b)
{
    b->k.world = h_open(&b->options);
    b->dnn = h_actor(b->k.world.device, "dnn");
}

db_bed db_open(const trp_device_options *options, const char *takes)
{
    db_bed b = {.options = options ? *options : h_options()};
    h_kernels_make_folder(&b.k);
    h_kernels_tell(&b.k, "cudnn_takes", takes);
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
