/* The side of Troupe in io.py: shows what it reads of a file, or writes it once more.
 *
 *   io_runner dump FILE     of each array a line "TYPE C|F DIM,... BYTES NAME", then its bytes
 *   io_runner copy FILE TO */
#include <troupe/io.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(trp_status status)
{
    if (status == TRP_OK)
        return;
    fprintf(stderr, "io_runner: %s (%s)\n", trp_error_message(), trp_status_name(status));
    exit(1);
}

static void *read_array(const trp_io_file *file, uint64_t index, trp_io_array *a)
{
    need(trp_io_get(file, index, a));
    void *data = malloc(a->bytes ? (size_t)a->bytes : 1);
    if (!data)
        exit(1);
    need(trp_io_read(file, index, data, a->bytes, NULL));
    return data;
}

static void dump(const trp_io_file *file)
{
    for (uint64_t i = 0; i < trp_io_count(file); i++) {
        trp_io_array a;
        void *data = read_array(file, i, &a);
        printf("%s %c ", trp_dtype_name(a.type), a.fortran_order ? 'F' : 'C');
        for (uint32_t k = 0; k < a.rank; k++)
            printf("%" PRId64 ",", a.dim[k]);
        printf("%s %" PRIu64 " %s\n", a.rank ? "" : ",", a.bytes, a.name);
        fwrite(data, 1, (size_t)a.bytes, stdout);
        free(data);
    }
}

static void copy(const trp_io_file *file, const char *path)
{
    const uint64_t count = trp_io_count(file);
    trp_io_item *items = calloc((size_t)count + 1, sizeof *items);
    const char *format = trp_io_metadata(file, "format");
    trp_io_pair pair = {"format", format};
    trp_io_save_options options = {.metadata = &pair, .metadata_count = format != NULL};
    if (!items)
        exit(1);
    for (uint64_t i = 0; i < count; i++)
        items[i].data = read_array(file, i, &items[i].array);
    need(trp_io_save(path, items, count, &options));
    for (uint64_t i = 0; i < count; i++)
        free((void *)(uintptr_t)items[i].data);
    free(items);
}

int main(int argc, char **argv)
{
    trp_io_file *file;
    if (argc < 3)
        return 2;
    need(trp_io_open(argv[2], &file));
    if (argc > 3)
        copy(file, argv[3]);
    else
        dump(file);
    trp_io_close(file);
    return 0;
}
