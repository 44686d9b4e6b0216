/* Files of arrays and a device: what is loaded is what the file has, sealed or not, with any number
 * of threads, while workers die; what is saved is what buffers hold. */
#include "support/folder.h"
#include "support/harness.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

TROUPE_TEST_FAKE_GPU("no sanitizer");

enum { ARRAYS = 9 };

/* Odd sizes around the pieces that a file is read in, empty arrays and single elements. */
static const int64_t sizes[ARRAYS] = {1,  0,       3, (2 << 20) - 1, 2 << 20, (2 << 20) + 1,
                                      77, 9 << 20, 5};

static char folder[256], path[512];
static unsigned char *content; /* of all arrays, one behind the other */

static unsigned char *array_data(int which)
{
    size_t at = 0;
    for (int i = 0; i < which; i++)
        at += (size_t)sizes[i];
    return content + at;
}

static size_t content_bytes(void)
{
    return (size_t)(array_data(ARRAYS) - content);
}

static void make_content(void)
{
    uint64_t seed = 1;
    content = malloc(32 << 20);
    H_CHECK(content != NULL);
    for (size_t i = 0; i < content_bytes(); i++)
        content[i] = (unsigned char)((seed = seed * 6364136223846793005u + 1) >> 56);
}

static void make_files(const char *name)
{
    static char names[ARRAYS][8];
    trp_io_item items[ARRAYS];
    memset(items, 0, sizeof items);
    h_folder_make(folder, sizeof folder, "io-test");
    snprintf(path, sizeof path, "%s/%s", folder, name);
    make_content();
    for (int i = 0; i < ARRAYS; i++) {
        snprintf(names[i], sizeof names[i], "a%d", i);
        items[i].array =
            (trp_io_array){.name = names[i], .type = TRP_U8, .rank = 1, .dim = {sizes[i]}};
        items[i].data = array_data(i);
    }
    H_OK(trp_io_save(path, items, ARRAYS, NULL));
}

static void remove_files(void)
{
    h_folder_remove(folder);
    free(content);
    content = NULL;
}

/* What lies at `offset` in a buffer is array `which`. */
static void check_buffer(trp_device *d, trp_buffer b, uint64_t offset, int which)
{
    const size_t bytes = (size_t)sizes[which];
    unsigned char *back = malloc(bytes + 1);
    H_CHECK(back != NULL);
    if (bytes > 0)
        h_read(d, b, offset, back, bytes);
    H_SAME(back, array_data(which), bytes);
    free(back);
}

static void sealed_files(const char *name)
{
    h_world w = h_open(NULL);
    make_files(name);
    for (uint32_t threads = 0; threads <= 5; threads++) {
        trp_io_file *file;
        trp_buffer b;
        uint64_t offsets[ARRAYS];
        H_OK(trp_io_open(path, &file));
        trp_io_options o = {.threads = threads};
        H_OK(trp_io_load_sealed(file, w.device, NULL, ARRAYS, &o, &b, offsets));
        trp_buffer_info info = h_buffer_info(w.device, b);
        H_CHECK(info.sealed && info.sealable && !info.lost);
        for (uint64_t i = 0; i < ARRAYS; i++) {
            trp_io_array a;
            H_OK(trp_io_get(file, i, &a));
            H_EQUAL(offsets[i] % 256, 0);
            check_buffer(w.device, b, offsets[i], a.name[1] - '0');
        }
        H_IS(trp_write(w.device, b, 0, "x", 1, NULL), TRP_E_ARGUMENT);
        H_OK(trp_buffer_free(w.device, b));
        /* A few of them, one of them twice. */
        const uint64_t some[] = {7, 2, 7};
        H_OK(trp_io_load_sealed(file, w.device, some, 3, &o, &b, offsets));
        check_buffer(w.device, b, offsets[0], 7);
        check_buffer(w.device, b, offsets[1], 2);
        check_buffer(w.device, b, offsets[2], 7);
        H_OK(trp_buffer_free(w.device, b));
        trp_io_close(file);
    }
    remove_files();
    h_close(&w);
}

static void sealed_safetensors(void)
{
    sealed_files("a.safetensors");
}

static void sealed_npz(void)
{
    sealed_files("a.npz");
}

static void single_tensors(void)
{
    h_world w = h_open(NULL);
    make_files("a.safetensors");
    trp_io_file *file;
    uint64_t offsets[ARRAYS];
    trp_buffer b = h_buffer(w.device, 16 << 20), small = h_buffer(w.device, 64), none = {0};
    H_OK(trp_io_open(path, &file));
    trp_io_part parts[] = {{5, b, 3}, {8, small, 59}, {1, none, 0}};
    H_OK(trp_io_load(file, w.device, parts, 3, NULL));
    check_buffer(w.device, b, 3, 5);
    check_buffer(w.device, small, 59, 8);
    H_OK(trp_io_load(file, w.device, NULL, 0, NULL));

    /* Nothing is written if one part does not fit. */
    h_fill(w.device, b, 0x11111111);
    parts[1].offset = 60;
    H_IS(trp_io_load(file, w.device, parts, 3, NULL), TRP_E_ARGUMENT);
    H_SAYS("parts[1]: array 'a8' of 5 bytes at offset 60 does not fit into its buffer of 64");
    parts[1].offset = UINT64_MAX - 2;
    H_IS(trp_io_load(file, w.device, parts, 3, NULL), TRP_E_ARGUMENT);
    parts[1] = (trp_io_part){ARRAYS, small, 0};
    H_IS(trp_io_load(file, w.device, parts, 3, NULL), TRP_E_ARGUMENT);
    H_SAYS("parts[1].index is 9: the file has 9 arrays");
    uint32_t word;
    h_read(w.device, b, 3, &word, 4);
    H_EQUAL(word, 0x11111111);
    H_OK(trp_buffer_free(w.device, small));
    parts[1] = (trp_io_part){8, small, 0};
    H_IS(trp_io_load(file, w.device, parts, 3, NULL), TRP_E_STALE);
    trp_buffer sealed = h_sealable(w.device, 64);
    h_fill(w.device, sealed, 1);
    H_OK(trp_buffer_seal(w.device, sealed, H_LONG));
    parts[1] = (trp_io_part){8, sealed, 0};
    H_IS(trp_io_load(file, w.device, parts, 3, NULL), TRP_E_ARGUMENT);
    H_SAYS("sealed");

    H_IS(trp_io_load(NULL, w.device, parts, 1, NULL), TRP_E_ARGUMENT);
    H_IS(trp_io_load(file, NULL, parts, 1, NULL), TRP_E_ARGUMENT);
    H_IS(trp_io_load(file, w.device, NULL, 1, NULL), TRP_E_ARGUMENT);
    H_IS(trp_io_load_sealed(file, w.device, NULL, 2, NULL, &sealed, offsets), TRP_E_ARGUMENT);
    H_SAYS("count is 2: without an index all 9 arrays");
    H_EQUAL(sealed.id, 0);
    H_IS(trp_io_load_sealed(file, w.device, (uint64_t[]){1}, 1, NULL, &sealed, offsets),
         TRP_E_ARGUMENT);
    H_SAYS("has an element");
    H_IS(trp_io_load_sealed(file, w.device, (uint64_t[]){99}, 1, NULL, &sealed, offsets),
         TRP_E_ARGUMENT);
    H_IS(trp_io_load_sealed(file, w.device, NULL, ARRAYS, NULL, &sealed, NULL), TRP_E_ARGUMENT);
    trp_io_close(file);
    remove_files();
    h_close(&w);
}

typedef struct stopping {
    trp_device *device;
    uint64_t calls, stop_at;
} stopping;

/* Kills a worker, or stops. */
static bool progress(void *user_data, uint64_t done, uint64_t total)
{
    stopping *s = user_data;
    H_CHECK(done <= total);
    s->calls++;
    if (s->device && s->calls == 2)
        kill((pid_t)h_info(s->device).worker_pid, SIGKILL);
    return done < s->stop_at;
}

static void stopped(void)
{
    h_world w = h_open(NULL);
    make_files("a.safetensors");
    trp_io_file *file;
    uint64_t offsets[ARRAYS];
    trp_buffer b = {7};
    stopping s = {.stop_at = 1 << 20};
    trp_io_options o = {.progress = progress, .user_data = &s};
    H_OK(trp_io_open(path, &file));
    const uint64_t before = h_info(w.device).buffers;
    H_IS(trp_io_load_sealed(file, w.device, NULL, ARRAYS, &o, &b, offsets), TRP_E_CANCELLED);
    H_EQUAL(b.id, 0);
    H_EQUAL(h_info(w.device).buffers, before);
    trp_io_close(file);
    remove_files();
    h_close(&w);
}

/* A worker that dies meanwhile costs nothing. */
static void a_worker_dies(void)
{
    if (h_isolation() == TRP_ISOLATION_THREAD)
        return;
    h_world w = h_open(NULL);
    make_files("a.safetensors");
    for (int round = 0; round < 5; round++) {
        trp_io_file *file;
        uint64_t offsets[ARRAYS];
        trp_buffer b;
        stopping s = {.device = w.device, .stop_at = UINT64_MAX};
        trp_io_options o = {.threads = 1 + (uint32_t)round, .progress = progress, .user_data = &s};
        H_OK(trp_io_open(path, &file));
        H_OK(trp_io_load_sealed(file, w.device, NULL, ARRAYS, &o, &b, offsets));
        for (uint64_t i = 0; i < ARRAYS; i++) {
            trp_io_array a;
            H_OK(trp_io_get(file, i, &a));
            check_buffer(w.device, b, offsets[i], a.name[1] - '0');
        }
        H_OK(trp_buffer_free(w.device, b));
        trp_io_close(file);
        H_OK(trp_device_drain(w.device, H_LONG));
    }
    remove_files();
    h_close(&w);
}

/* The file is cut short while it is open: no buffer stays. */
static void a_file_shrinks(void)
{
    h_world w = h_open(NULL);
    make_files("a.safetensors");
    trp_io_file *file;
    uint64_t offsets[ARRAYS];
    trp_buffer b;
    H_OK(trp_io_open(path, &file));
    H_EQUAL(truncate(path, 8 << 20), 0);
    const uint64_t before = h_info(w.device).buffers;
    H_IS(trp_io_load_sealed(file, w.device, NULL, ARRAYS, NULL, &b, offsets), TRP_E_ARGUMENT);
    H_SAYS("a.safetensors: 'a");
    H_SAYS("truncated data");
    H_EQUAL(h_info(w.device).buffers, before);
    trp_io_close(file);
    remove_files();
    h_close(&w);
}

static void saved_from_buffers(void)
{
    static const char *const names[] = {"s.npz", "s.safetensors"};
    h_world w = h_open(NULL);
    h_folder_make(folder, sizeof folder, "io-test");
    make_content();
    trp_buffer b = h_buffer(w.device, 32 << 20);
    h_write(w.device, b, 100, content, content_bytes());
    for (int format = 0; format < 2; format++) {
        trp_io_item items[ARRAYS];
        char name[ARRAYS][8];
        uint64_t at = 100;
        stopping s = {.stop_at = UINT64_MAX};
        memset(items, 0, sizeof items);
        for (int i = 0; i < ARRAYS; i++) {
            snprintf(name[i], sizeof name[i], "a%d", i);
            items[i].array =
                (trp_io_array){.name = name[i], .type = TRP_I8, .rank = 1, .dim = {sizes[i]}};
            items[i].buffer = b;
            items[i].offset = at;
            at += (uint64_t)sizes[i];
        }
        items[3].data = array_data(3); /* one from memory, among them */
        snprintf(path, sizeof path, "%s/%s", folder, names[format]);
        trp_io_save_options o = {.device = w.device, .progress = progress, .user_data = &s};
        H_OK(trp_io_save(path, items, ARRAYS, &o));
        H_CHECK(s.calls > 5);
        trp_io_file *file;
        H_OK(trp_io_open(path, &file));
        for (int i = 0; i < ARRAYS; i++) {
            uint64_t index;
            unsigned char *back = malloc((size_t)sizes[i] + 1);
            H_OK(trp_io_find(file, name[i], &index));
            H_OK(trp_io_read(file, index, back, (uint64_t)sizes[i], NULL));
            H_SAME(back, array_data(i), (size_t)sizes[i]);
            free(back);
        }
        trp_io_close(file);
        items[7].offset = 32 << 20;
        H_IS(trp_io_save(path, items, ARRAYS, &o), TRP_E_ARGUMENT);
        H_SAYS("items[7]");
    }
    remove_files();
    h_close(&w);
}

H_CASES(H_CASE(sealed_safetensors), H_CASE(sealed_npz), H_CASE(single_tensors), H_CASE(stopped),
        H_CASE(a_worker_dies), H_CASE(a_file_shrinks), H_CASE(saved_from_buffers))
