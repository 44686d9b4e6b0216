/* Files of arrays: what is written is read back, what contradicts itself is refused, and a file is
 * replaced whole or not at all. In a folder of its own. */
#include "support/folder.h"
#include "support/harness.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[256];

static const char *in_folder(const char *name)
{
    static char path[4][512];
    static unsigned turn;
    char *to = path[turn++ % 4];
    snprintf(to, sizeof path[0], "%s/%s", folder, name);
    return to;
}

static int files_in_folder(void)
{
    int count = 0;
    DIR *dir = opendir(folder);
    H_CHECK(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return count;
}

static void put_file(const char *path, const void *bytes, size_t length)
{
    FILE *f = fopen(path, "wb");
    H_CHECK(f && fwrite(bytes, 1, length, f) == length && fclose(f) == 0);
}

static void begin(void)
{
    h_folder_make(folder, sizeof folder, "io-test");
}

static void end(void)
{
    h_folder_remove(folder);
}

static uint64_t elements_of(const trp_io_array *a)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < a->rank; i++)
        count *= (uint64_t)a->dim[i];
    return count;
}

static trp_io_item item_of(const char *name, trp_dtype type, uint32_t rank, const int64_t *dim,
                           const void *data)
{
    trp_io_item item = {.array = {.name = name, .type = type, .rank = rank}, .data = data};
    for (uint32_t i = 0; i < rank; i++)
        item.array.dim[i] = dim[i];
    return item;
}

/* --- Round trips --- */

static const int64_t shapes[][4] = {
    {5, 3, 2, 4}, {0, 7, 1, 1}, {1, 1, 1, 1}, {1000, 3, 1, 2}, {1, 1001, 2, 1}};

static void check_array(const trp_io_file *file, const trp_io_item *item, uint64_t bytes)
{
    uint64_t index;
    trp_io_array got;
    const char *name = item->array.name ? item->array.name : "";
    unsigned char *back = malloc((size_t)bytes + 1);
    H_CHECK(back != NULL);
    memset(back, 0xa5, (size_t)bytes + 1);
    H_OK(trp_io_find(file, name, &index));
    H_OK(trp_io_get(file, index, &got));
    H_CHECK(strcmp(got.name, name) == 0);
    H_EQUAL(got.type, item->array.type);
    H_EQUAL(got.rank, item->array.rank);
    H_SAME(got.dim, item->array.dim, sizeof got.dim);
    H_EQUAL(got.bytes, bytes);
    H_EQUAL(got.fortran_order, item->array.fortran_order && item->array.rank > 1);
    H_OK(trp_io_read(file, index, back, bytes, NULL));
    H_SAME(back, item->data, (size_t)bytes);
    H_EQUAL(back[bytes], 0xa5);
    H_IS(trp_io_read(file, index, back, bytes + 1, NULL), TRP_E_ARGUMENT);
    free(back);
}

/* Every type that a format has, in ranks, shapes and orders; those that it lacks are refused. */
static void round_trips(void)
{
    static const char *const paths[] = {"", "a.npy", "a.npz", "a.safetensors"};
    static unsigned char data[1000 * 3 * 2 * 16 + 1];
    begin();
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 37 + i / 251);
    for (int format = TRP_IO_NPY; format <= TRP_IO_SAFETENSORS; format++) {
        for (trp_dtype type = 1; type < TRP_DTYPE_COUNT; type++) {
            const bool narrow = type == TRP_BF16 || type == TRP_F8E4M3 || type == TRP_F8E5M2 ||
                                type == TRP_F4E2M1 || type == TRP_F8E8M0;
            const bool lacking =
                type == TRP_I4 || (format == TRP_IO_SAFETENSORS ? type == TRP_C128 : narrow);
            for (uint32_t n = type % 4; n < 5 * 5 * 2; n += 4) {
                trp_io_item item = item_of(format == TRP_IO_NPY ? NULL : "x/y \"\xc3\x9f\\\n", type,
                                           n / 10, shapes[n % 5], data);
                item.array.fortran_order = n / 5 % 2 != 0 && format != TRP_IO_SAFETENSORS;
                const uint64_t bits = elements_of(&item.array) * trp_dtype_bits(type);
                const char *path = in_folder(paths[format]);
                trp_status status = trp_io_save(path, &item, 1, NULL);
                if (bits % 8 != 0 || lacking) {
                    H_EQUAL(status, lacking ? TRP_E_UNSUPPORTED : TRP_E_ARGUMENT);
                    continue;
                }
                H_EQUAL(status, TRP_OK);
                trp_io_file *file;
                H_OK(trp_io_open(path, &file));
                H_EQUAL(trp_io_file_format(file), format);
                H_EQUAL(trp_io_count(file), 1);
                check_array(file, &item, bits / 8);
                trp_io_close(file);
                H_EQUAL(files_in_folder(), 1);
                H_EQUAL(unlink(path), 0);
            }
        }
    }
    end();
}

/* Many arrays of many types, in an order that safetensors changes. */
static void many_arrays(void)
{
    enum { COUNT = 300 };
    static const trp_dtype types[] = {TRP_U8, TRP_F64, TRP_BOOL, TRP_F32, TRP_F16};
    static char names[COUNT][16];
    static trp_io_item items[COUNT];
    unsigned char data[64];
    begin();
    memset(data, 0x3c, sizeof data);
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i * 7919 % COUNT);
        items[i] = item_of(names[i], types[i % 5], 1, (int64_t[]){i % 7}, data);
    }
    for (int format = TRP_IO_NPZ; format <= TRP_IO_SAFETENSORS; format++) {
        const char *path = in_folder("many");
        trp_io_pair pairs[] = {{"k\"ey", "v\\al\tue"}, {"format", "pt"}};
        trp_io_save_options o = {.format = (trp_io_format)format, .metadata = pairs};
        o.metadata_count = format == TRP_IO_SAFETENSORS ? 2 : 0;
        H_OK(trp_io_save(path, items, COUNT, &o));
        trp_io_file *file;
        H_OK(trp_io_open(path, &file));
        H_EQUAL(trp_io_count(file), COUNT);
        for (int i = 0; i < COUNT; i++)
            check_array(file, &items[i], (uint64_t)(i % 7) * trp_dtype_bits(types[i % 5]) / 8);
        uint64_t index = 77;
        H_IS(trp_io_find(file, "t", &index), TRP_E_ARGUMENT);
        H_SAYS("no array is named 't'");
        H_EQUAL(index, 77);
        trp_io_array array;
        H_IS(trp_io_get(file, COUNT, &array), TRP_E_ARGUMENT);
        if (format == TRP_IO_SAFETENSORS) {
            H_CHECK(strcmp(trp_io_metadata(file, "k\"ey"), "v\\al\tue") == 0);
            H_CHECK(strcmp(trp_io_metadata(file, "format"), "pt") == 0);
        }
        H_CHECK(trp_io_metadata(file, "none") == NULL);
        trp_io_close(file);
    }
    /* None at all. */
    for (int format = TRP_IO_NPZ; format <= TRP_IO_SAFETENSORS; format++) {
        const char *path = in_folder("many");
        H_OK(trp_io_save(path, NULL, 0, &(trp_io_save_options){.format = (trp_io_format)format}));
        trp_io_file *file;
        H_OK(trp_io_open(path, &file));
        H_EQUAL(trp_io_count(file), 0);
        trp_io_close(file);
    }
    end();
}

/* --- safetensors that contradict themselves --- */

static void put_safetensors(const char *path, const char *header, uint64_t length, size_t data)
{
    static const unsigned char zeros[4096];
    FILE *f = fopen(path, "wb");
    H_CHECK(f && fwrite(&length, 8, 1, f) == 1);
    H_CHECK(fwrite(header, 1, strlen(header), f) == strlen(header));
    H_CHECK(fwrite(zeros, 1, data, f) == data && fclose(f) == 0);
}

static void refuse_header(const char *header, size_t data, trp_status status, const char *message)
{
    const char *path = in_folder("a.safetensors");
    trp_io_file *file;
    put_safetensors(path, header, strlen(header), data);
    H_IS(trp_io_open(path, &file), status);
    H_CHECK(file == NULL);
    H_SAYS("a.safetensors: ");
    H_SAYS(message);
}

#define ONE(dtype, shape, offsets)                                                                 \
    "{\"w\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define TWO(first, second)                                                                         \
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" first "},"                          \
    "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" second "}}"

static void hostile_safetensors(void)
{
    static const struct {
        const char *header;
        size_t data;
        const char *message;
    } cases[] = {
        {ONE("F32", "[2]", "[0,8]"), 7, "tensor 'w' ends at byte 8 of the data: the file has 7"},
        {ONE("F32", "[2]", "[0,8]"), 9, "the tensors end at byte 8 of the data: the file has 9"},
        {ONE("F32", "[2]", "[0,4]"), 4, "dtype and shape make 8 bytes, data_offsets are 4 apart"},
        {ONE("F32", "[2]", "[8,0]"), 8, "data_offsets end at 0, before they begin at 8"},
        {ONE("F32", "[1]", "[4,8]"), 8, "begins at byte 4: expected 0, there is a hole"},
        {ONE("F32", "[]", "[9223372036854775803,9223372036854775807]"), 4, "ends at byte"},
        {ONE("F32", "[9223372036854775807,9223372036854775807]", "[0,4]"), 4, "no number of bytes"},
        {ONE("F32", "[9223372036854775808]", "[0,4]"), 4, "expected an integer from 0 to 2^63 - 1"},
        {ONE("F32", "[-1]", "[0,4]"), 4, "got -1"},
        {ONE("F32", "[1.0]", "[0,4]"), 4, "got 1.0"},
        {ONE("F32", "[1e0]", "[0,4]"), 4, "got 1e0"},
        {ONE("F32", "[01]", "[0,4]"), 4, "got 01"},
        {ONE("F32", "[1,]", "[0,4]"), 4, "expected an integer"},
        {ONE("F32", "1", "[0,4]"), 4, "expected '['"},
        {ONE("F32", "[1]", "[0]"), 4, "expected ','"},
        {ONE("F32", "[1]", "[0,4,8]"), 4, "expected ']'"},
        {ONE("F4", "[3]", "[0,1]"), 1, "no number of bytes"},
        {ONE("F6_E2M3", "[2]", "[0,1]"), 1, "no number of bytes"},
        {TWO("[0,4]", "[0,4]"), 4, "tensor 'b' begins at byte 0: expected 4, they overlap"},
        {TWO("[0,4]", "[2,6]"), 6, "they overlap"},
        {TWO("[0,4]", "[8,12]"), 12, "there is a hole"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
         0, "tensor 'a' comes twice"},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0,
         "has \"dtype\" twice"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0]}}", 0, "has no \"data_offsets\""},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":0}}", 0,
         "has the key 'x'"},
        {"{\"a\":[]}", 0, "expected '{'"},
        {"{\"a\":{}}", 0, "expected \"dtype\", \"shape\" or \"data_offsets\""},
        {"{\"__metadata__\":{\"a\":1}}", 0, "expected a string in \"__metadata__\""},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "comes twice"},
        {"{\"\\u0000\":{}}", 0, "a wrong escape"},
        {"{\"\\ud800\":{}}", 0, "a wrong escape"},
        {"{\"\\x\":{}}", 0, "a wrong escape"},
        {"{\"\xff\":{}}", 0, "is not UTF-8"},
        {"{\"\xed\xa0\x80\":{}}", 0, "is not UTF-8"},
        {"{\"\xe2\x82", 0, "is not UTF-8"},
        {"{\"a\n\":{}}", 0, "has a control character"},
        {"{\"a", 0, "does not end"},
        {"{\"a\\", 0, "a wrong escape"},
        {"{\"a\\u12", 0, "a wrong escape"},
        {"{\"a\\ud800\\u", 0, "a wrong escape"},
        {"{", 0, "expected the name of a tensor, got its end"},
        {"{}x", 0, "expected nothing behind the '}' at byte 2, got x"},
        {"{},", 0, "expected nothing behind"},
        {"{}", 1, "the tensors end at byte 0 of the data: the file has 1"},
    };
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse_header(cases[i].header, cases[i].data, TRP_E_ARGUMENT, cases[i].message);
    refuse_header(ONE("F33", "[1]", "[0,4]"), 4, TRP_E_UNSUPPORTED, "has the dtype 'F33'");
    refuse_header("{\"w\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
                  "1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}",
                  1, TRP_E_UNSUPPORTED, "expected at most 32 dimensions");
    /* Lengths of the header. */
    static const struct {
        uint64_t length;
        const char *message;
    } lengths[] = {{UINT64_MAX, "header length of 18446744073709551615 bytes"},
                   {UINT64_C(1) << 63, "expected at most 100000000"},
                   {100000001, "expected at most 100000000"},
                   {100000000, "truncated header: expected 100000000 bytes"},
                   {3, "truncated header"},
                   {1, "expected the name of a tensor, got its end"}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        trp_io_file *file;
        put_safetensors(in_folder("b"), "{}", lengths[i].length, 0);
        H_IS(trp_io_open(in_folder("b"), &file), TRP_E_ARGUMENT);
        H_SAYS(lengths[i].message);
    }
    end();
}

/* Types that trp_dtype lacks are listed, and moved as bytes. */
static void foreign_types(void)
{
    static const char header[] =
        "{\"a\":{\"dtype\":\"I16\",\"shape\":[3],\"data_offsets\":[0,6]},"
        "\"b\":{\"dtype\":\"F6_E3M2\",\"shape\":[2,4],\"data_offsets\":[6,12]} }   ";
    trp_io_file *file;
    trp_io_array a;
    unsigned char bytes[6] = {1, 2, 3, 4, 5, 6};
    begin();
    put_safetensors(in_folder("f"), header, strlen(header), 12);
    H_OK(trp_io_open(in_folder("f"), &file));
    for (uint64_t i = 0; i < 2; i++) {
        H_OK(trp_io_get(file, i, &a));
        H_EQUAL(a.type, TRP_DTYPE_NONE);
        H_EQUAL(a.bytes, 6);
        H_CHECK(strcmp(a.file_type, i == 0 ? "I16" : "F6_E3M2") == 0);
        H_OK(trp_io_read(file, i, bytes, 6, NULL));
        H_EQUAL(bytes[0] | bytes[5], 0);
    }
    trp_io_close(file);
    end();
}

/* --- Archives --- */

/* numpy.savez_compressed(z, a=numpy.arange(6, dtype='<f4').reshape(2, 3), s=numpy.array('x')), of
 * NumPy 2.4: deflated, with the fields of ZIP64 that Python writes; `s` is text. */
#include "deflated.h"

static void deflated(void)
{
    trp_io_file *file;
    trp_io_array a;
    uint64_t index;
    float values[6];
    begin();
    put_file(in_folder("z.npz"), deflated_npz, sizeof deflated_npz);
    trp_status status = trp_io_open(in_folder("z.npz"), &file);
    if (status == TRP_E_MISSING) {
        H_SAYS("libz.so.1");
        H_SAYS("zlib1g");
        end();
        return;
    }
    H_EQUAL(status, TRP_OK);
    H_EQUAL(trp_io_count(file), 2);
    H_OK(trp_io_find(file, "a", &index));
    H_OK(trp_io_get(file, index, &a));
    H_EQUAL(a.type, TRP_F32);
    H_CHECK(a.rank == 2 && a.dim[0] == 2 && a.dim[1] == 3 && a.bytes == 24);
    H_OK(trp_io_read(file, index, values, sizeof values, NULL));
    for (int i = 0; i < 6; i++)
        H_CHECK(values[i] == (float)i);
    H_OK(trp_io_find(file, "s", &index));
    H_OK(trp_io_get(file, index, &a));
    H_EQUAL(a.type, TRP_DTYPE_NONE);
    H_IS(trp_io_read(file, index, values, a.bytes, NULL), TRP_E_UNSUPPORTED);
    H_SAYS("array 's': text dtype '<U1'");
    trp_io_close(file);
    /* Each byte of it changed: an answer, or an error; never other numbers. */
    for (size_t i = 0; i < sizeof deflated_npz; i++) {
        unsigned char damaged[sizeof deflated_npz];
        memcpy(damaged, deflated_npz, sizeof damaged);
        damaged[i] ^= 0x41;
        put_file(in_folder("z.npz"), damaged, sizeof damaged);
        if (trp_io_open(in_folder("z.npz"), &file) != TRP_OK)
            continue;
        if (trp_io_find(file, "a", &index) == TRP_OK && trp_io_get(file, index, &a) == TRP_OK &&
            a.bytes == 24 && trp_io_read(file, index, values, 24, NULL) == TRP_OK) {
            for (int k = 0; k < 6; k++)
                H_CHECK(values[k] == (float)k);
        }
        trp_io_close(file);
    }
    for (size_t length = 0; length < sizeof deflated_npz; length++) {
        put_file(in_folder("z.npz"), deflated_npz, length);
        H_CHECK(trp_io_open(in_folder("z.npz"), &file) != TRP_OK);
    }
    end();
}

static void put16(unsigned char *at, unsigned value)
{
    at[0] = (unsigned char)value;
    at[1] = (unsigned char)(value >> 8);
}

/* Damages one field of a stored archive with two arrays, at an offset from the central record of
 * the second, from the second local header, or from the end. */
static void hostile_archives(void)
{
    enum { CENTRAL, LOCAL, END };
    static const struct {
        int record;
        size_t at;
        unsigned low, high; /* of four bytes */
        trp_status status;
        const char *message;
    } cases[] = {
        {CENTRAL, 42, 0xffff, 0x7fff, TRP_E_ARGUMENT, "begins at byte"},
        {CENTRAL, 42, 0, 0, TRP_E_ARGUMENT, "overlaps another one"},
        {CENTRAL, 24, 0xfffe, 0xffff, TRP_E_ARGUMENT, "can't be made of"},
        {CENTRAL, 20, 0xfffe, 0xffff, TRP_E_ARGUMENT, "reach into the directory"},
        {CENTRAL, 20, 0xffff, 0xffff, TRP_E_ARGUMENT, "reach into the directory"},
        {CENTRAL, 0, 0, 0, TRP_E_ARGUMENT, "its directory is damaged"},
        {CENTRAL, 28, 0xffff, 0xffff, TRP_E_ARGUMENT, "its directory is damaged"},
        {LOCAL, 0, 0, 0, TRP_E_ARGUMENT, "is not where the directory has it"},
        {LOCAL, 26, 0xffff, 0xffff, TRP_E_ARGUMENT, "reach into the directory"},
        {END, 0, 0, 0, TRP_E_ARGUMENT, "it has no end of its directory"},
        {END, 12, 0xffff, 0x7fff, TRP_E_ARGUMENT, "reaches past its end"},
        {END, 16, 0xffff, 0x7fff, TRP_E_ARGUMENT, "reaches past its end"},
        {END, 16, 0xffff, 0xffff, TRP_E_ARGUMENT, "ZIP64"},
        {END, 8, 0xfffe, 0xfffe, TRP_E_ARGUMENT, "for 65534 members"},
        {END, 20, 1, 0, TRP_E_ARGUMENT, "it has no end of its directory"},
    };
    unsigned char bytes[2048], damaged[2048];
    const double one = 1;
    begin();
    trp_io_item items[] = {item_of("first", TRP_F64, 0, NULL, &one),
                           item_of("second", TRP_F64, 0, NULL, &one)};
    const char *path = in_folder("h.npz");
    H_OK(trp_io_save(path, items, 2, NULL));
    FILE *f = fopen(path, "rb");
    H_CHECK(f != NULL);
    const size_t length = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    const size_t end_at = length - 22, central = end_at - 46 - strlen("second.npy");
    const size_t local = 30 + strlen("first.npy") + 128 + 8;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trp_io_file *file;
        const size_t base = cases[i].record == END     ? end_at
                            : cases[i].record == LOCAL ? local
                                                       : central;
        memcpy(damaged, bytes, length);
        put16(damaged + base + cases[i].at, cases[i].low);
        put16(damaged + base + cases[i].at + 2, cases[i].high);
        put_file(path, damaged, length);
        H_IS(trp_io_open(path, &file), cases[i].status);
        H_SAYS(cases[i].message);
    }
    /* What one array has that is not read spoils no other. */
    for (int which = 0; which < 2; which++) {
        trp_io_file *file;
        double back = 0;
        memcpy(damaged, bytes, length);
        put16(damaged + central + (which ? 10 : 8), which ? 99 : 1);
        put16(damaged + local + 8, which ? 99 : 0);
        put_file(path, damaged, length);
        H_OK(trp_io_open(path, &file));
        H_IS(trp_io_read(file, 1, &back, 0, NULL), TRP_E_UNSUPPORTED);
        H_SAYS(which ? "array 'second': it is packed by method 99" : "it is encrypted");
        H_OK(trp_io_read(file, 0, &back, 8, NULL));
        H_CHECK(back == 1);
        trp_io_close(file);
    }
    /* A checksum, which is looked at when the elements are read. */
    trp_io_file *file;
    double back = 0;
    memcpy(damaged, bytes, length);
    damaged[local + 30 + strlen("second.npy") + 128 + 3] ^= 1;
    put_file(path, damaged, length);
    H_OK(trp_io_open(path, &file));
    H_IS(trp_io_read(file, 1, &back, 8, NULL), TRP_E_ARGUMENT);
    H_SAYS("h.npz: 'second': damaged data: expected the checksum");
    H_OK(trp_io_read(file, 0, &back, 8, NULL));
    trp_io_close(file);
    end();
}

/* --- What is no file of arrays --- */

static void refuse_open(const char *path, trp_status status, const char *message)
{
    trp_io_file *file = (trp_io_file *)folder;
    H_IS(trp_io_open(path, &file), status);
    H_CHECK(file == NULL);
    H_SAYS(message);
}

static void what_is_no_file(void)
{
    trp_io_file *file;
    begin();
    H_IS(trp_io_open(NULL, &file), TRP_E_ARGUMENT);
    H_IS(trp_io_open("x", NULL), TRP_E_ARGUMENT);
    refuse_open(in_folder("none"), TRP_E_MISSING, "none: No such file or directory");
    refuse_open(folder, TRP_E_ARGUMENT, "not a regular file");
    refuse_open("/dev/null", TRP_E_ARGUMENT, "not a regular file");
    refuse_open("/dev/zero", TRP_E_ARGUMENT, "not a regular file");
    H_EQUAL(mkfifo(in_folder("fifo"), 0600), 0);
    refuse_open(in_folder("fifo"), TRP_E_ARGUMENT, "not a regular file"); /* nobody writes it */
    put_file(in_folder("empty"), "", 0);
    refuse_open(in_folder("empty"), TRP_E_ARGUMENT, "empty file");
    put_file(in_folder("text"), "a text of some length", 21);
    refuse_open(in_folder("text"), TRP_E_ARGUMENT, "not a .npy file");
    put_file(in_folder("zip"), "PK\3\4", 4);
    refuse_open(in_folder("zip"), TRP_E_ARGUMENT, "it has no end of its directory");
    char deep[300];
    memset(deep, 'd', sizeof deep);
    deep[sizeof deep - 1] = '\0';
    refuse_open(deep, TRP_E_SYSTEM, "...ddd");
    H_SAYS("File name too long");
    H_EQUAL(trp_io_count(NULL), 0);
    H_EQUAL(trp_io_file_format(NULL), TRP_IO_BY_NAME);
    H_CHECK(trp_io_metadata(NULL, "a") == NULL);
    trp_io_close(NULL);
    end();
}

/* It is cut short after it was opened. */
static void shrinking(void)
{
    static float data[1 << 20];
    trp_io_file *file;
    begin();
    const char *path = in_folder("s.npy");
    trp_io_item item = item_of(NULL, TRP_F32, 1, (int64_t[]){1 << 20}, data);
    H_OK(trp_io_save(path, &item, 1, NULL));
    H_OK(trp_io_open(path, &file));
    H_EQUAL(truncate(path, 3 << 20), 0);
    for (uint32_t threads = 1; threads <= 8; threads *= 2) {
        trp_io_options o = {.threads = threads};
        H_IS(trp_io_read(file, 0, data, sizeof data, &o), TRP_E_ARGUMENT);
        H_SAYS("s.npy: truncated data: the file ends after 3145728 bytes");
    }
    trp_io_close(file);
    end();
}

/* --- Options --- */

typedef struct seen {
    pthread_t thread;
    uint64_t calls, last, stop_at;
} seen;

static bool progress(void *user_data, uint64_t done, uint64_t total)
{
    seen *s = user_data;
    H_CHECK(pthread_equal(pthread_self(), s->thread));
    H_CHECK(done >= s->last && done <= total);
    s->last = done;
    s->calls++;
    return done < s->stop_at;
}

static void options(void)
{
    enum { BYTES = 64 << 20 };
    unsigned char *data = malloc(BYTES), *back = malloc(BYTES);
    trp_io_file *file;
    H_CHECK(data && back);
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 13);
    begin();
    const char *path = in_folder("o.safetensors");
    seen s = {.thread = pthread_self(), .stop_at = UINT64_MAX};
    trp_io_item item = item_of("w", TRP_U8, 1, (int64_t[]){BYTES}, data);
    trp_io_save_options so = {.progress = progress, .user_data = &s};
    H_OK(trp_io_save(path, &item, 1, &so));
    H_CHECK(s.calls > 4);
    H_EQUAL(s.last, BYTES);
    for (uint32_t threads = 0; threads <= 64; threads = threads ? threads * 4 : 1) {
        trp_io_options o = {.threads = threads, .progress = progress, .user_data = &s};
        s = (seen){.thread = pthread_self(), .stop_at = UINT64_MAX};
        H_OK(trp_io_open(path, &file));
        memset(back, 0, BYTES);
        H_OK(trp_io_read(file, 0, back, BYTES, &o));
        H_SAME(back, data, BYTES);
        H_EQUAL(s.last, BYTES);
        s = (seen){.thread = pthread_self()};
        H_IS(trp_io_read(file, 0, back, BYTES, &o), TRP_E_CANCELLED);
        H_SAYS("stopped by the progress callback");
        trp_io_close(file);
    }
    /* A save that is stopped leaves what was there. */
    s = (seen){.thread = pthread_self(), .stop_at = BYTES / 2};
    H_IS(trp_io_save(path, &item, 1, &so), TRP_E_CANCELLED);
    s = (seen){.thread = pthread_self(), .stop_at = BYTES};
    H_IS(trp_io_save(path, &item, 1, &so), TRP_E_CANCELLED);
    H_EQUAL(files_in_folder(), 1);
    H_OK(trp_io_open(path, &file));
    H_IS(trp_io_read(file, 0, back, BYTES, &(trp_io_options){.threads = 65}), TRP_E_ARGUMENT);
    H_SAYS("threads is 65");
    H_IS(trp_io_read(file, 0, back, BYTES, &(trp_io_options){.reserved = {0, 1}}), TRP_E_ARGUMENT);
    H_SAYS("reserved");
    H_IS(trp_io_read(file, 1, back, BYTES, NULL), TRP_E_ARGUMENT);
    H_IS(trp_io_read(file, 0, NULL, BYTES, NULL), TRP_E_ARGUMENT);
    H_IS(trp_io_read(NULL, 0, back, BYTES, NULL), TRP_E_ARGUMENT);
    trp_io_close(file);
    free(data);
    free(back);
    end();
}

/* --- Saving --- */

static const double four[4] = {1, 2, 3, 4};

static trp_io_item two_by_two(void)
{
    return item_of(NULL, TRP_F64, 2, (int64_t[]){2, 2}, four);
}

static void refuse_save(const char *path, const trp_io_item *item, trp_status status,
                        const char *why)
{
    const int before = files_in_folder();
    H_IS(trp_io_save(path, item, 1, &(trp_io_save_options){.format = TRP_IO_NPY}), status);
    H_SAYS(why);
    H_EQUAL(files_in_folder(), before);
}

static void refused_saves(void)
{
    begin();
    const char *path = in_folder("c.npy");
    trp_io_item item = two_by_two();
    item.array.type = TRP_BF16;
    refuse_save(path, &item, TRP_E_UNSUPPORTED, "items[0]: .npy has no bf16; safetensors have");
    item.array.type = (trp_dtype)99;
    refuse_save(path, &item, TRP_E_ARGUMENT, "type 99");
    item = two_by_two();
    item.array.dim[0] = INT64_C(1) << 61;
    refuse_save(path, &item, TRP_E_ARGUMENT, "no number of bytes below 2^63");
    item.array.dim[0] = -2;
    refuse_save(path, &item, TRP_E_ARGUMENT, "dim[0] is -2");
    item = two_by_two();
    item.array.rank = TRP_IO_RANK_MAX + 1;
    refuse_save(path, &item, TRP_E_ARGUMENT, "rank is 33");
    item = two_by_two();
    item.array.name = "a";
    refuse_save(path, &item, TRP_E_ARGUMENT, "has no name");
    item = two_by_two();
    item.array.reserved[2] = 1;
    refuse_save(path, &item, TRP_E_ARGUMENT, "reserved");
    item = two_by_two();
    item.data = NULL;
    refuse_save(path, &item, TRP_E_ARGUMENT, "expected data, or a buffer and options->device");
    H_EQUAL(files_in_folder(), 0);

    item = two_by_two();
    refuse_save("", &item, TRP_E_ARGUMENT, "expected the name of a file");
    refuse_save(folder, &item, TRP_E_ARGUMENT, "it exists and is not a regular file");
    refuse_save("/dev/null", &item, TRP_E_ARGUMENT, "it exists and is not a regular file");
    refuse_save(in_folder("new/"), &item, TRP_E_ARGUMENT, "expected the name of a file");
    refuse_save(in_folder("none/c.npy"), &item, TRP_E_MISSING,
                "making a temporary file in its folder: No such file or directory");
    H_EQUAL(symlink("/dev/null", in_folder("link")), 0);
    refuse_save(in_folder("link"), &item, TRP_E_ARGUMENT, "it exists and is not a regular file");
    unlink(in_folder("link"));
    H_EQUAL(symlink("nothing", in_folder("link")), 0);
    refuse_save(in_folder("link"), &item, TRP_E_MISSING, "No such file or directory");
    unlink(in_folder("link"));

    trp_io_item twins[] = {two_by_two(), two_by_two()};
    trp_io_pair pair = {"a", "b"};
    twins[0].array.name = twins[1].array.name = "same";
    H_IS(trp_io_save(in_folder("c.npy"), twins, 2, NULL), TRP_E_ARGUMENT);
    H_SAYS("count is 2: .npy holds 1 array");
    H_IS(trp_io_save(in_folder("c.npz"), twins, 2, NULL), TRP_E_ARGUMENT);
    H_SAYS("two items have the name 'same'");
    H_IS(trp_io_save(in_folder("c.txt"), twins, 1, NULL), TRP_E_ARGUMENT);
    H_SAYS("options->format");
    H_IS(trp_io_save(in_folder("c.npz"), twins, 1,
                     &(trp_io_save_options){.metadata = &pair, .metadata_count = 1}),
         TRP_E_UNSUPPORTED);
    twins[0].array.name = "__metadata__";
    H_IS(trp_io_save(in_folder("c.safetensors"), twins, 1, NULL), TRP_E_ARGUMENT);
    twins[0].array.name = "\xff";
    H_IS(trp_io_save(in_folder("c.safetensors"), twins, 1, NULL), TRP_E_ARGUMENT);
    H_SAYS("UTF-8");
    twins[0].array.name = "f";
    twins[0].array.fortran_order = true;
    H_IS(trp_io_save(in_folder("c.safetensors"), twins, 1, NULL), TRP_E_UNSUPPORTED);
    H_SAYS("Fortran order");
    H_IS(trp_io_save(NULL, twins, 1, NULL), TRP_E_ARGUMENT);
    H_IS(trp_io_save("a.npz", NULL, 1, NULL), TRP_E_ARGUMENT);
    H_EQUAL(files_in_folder(), 0);
    end();
}

/* A write that fails half-way leaves the old file as it was, and no temporary. The signal that
 * comes with the error does not end the program. */
static void a_failed_write_changes_nothing(void)
{
    char old[8] = "";
    begin();
    const char *path = in_folder("d.npy");
    put_file(path, "old", 3);
    fflush(NULL);
    pid_t child = fork();
    H_CHECK(child >= 0);
    if (child == 0) {
        trp_io_item item = two_by_two();
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){140, 140});
        _exit(trp_io_save(path, &item, 1, NULL) != TRP_E_SYSTEM                     ? 1
              : strstr(trp_error_message(), "File too large (RLIMIT_FSIZE is 140)") ? 0
                                                                                    : 2);
    }
    int status = 0;
    H_CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    H_EQUAL(WEXITSTATUS(status), 0);
    H_EQUAL(files_in_folder(), 1);
    FILE *f = fopen(path, "rb");
    H_CHECK(f && fread(old, 1, sizeof old, f) == 3 && memcmp(old, "old", 3) == 0);
    fclose(f);
    end();
}

static void a_file_is_replaced_whole(void)
{
    char byte[4];
    struct stat st;
    begin();
    const char *path = in_folder("e.npy"), *link_path = in_folder("link.npy");
    put_file(path, "old", 3);
    H_EQUAL(chmod(path, 0640), 0);
    H_EQUAL(symlink("e.npy", link_path), 0);
    /* A reader that has the old file open keeps it. */
    int old = open(path, O_RDONLY | O_CLOEXEC);
    trp_io_item item = two_by_two();
    H_OK(trp_io_save(link_path, &item, 1, NULL));
    H_EQUAL(read(old, byte, sizeof byte), 3);
    close(old);
    H_CHECK(lstat(link_path, &st) == 0 && S_ISLNK(st.st_mode));
    H_EQUAL(lstat(path, &st), 0);
    H_EQUAL(st.st_mode & 07777, 0640);
    H_EQUAL(st.st_size, 128 + 32);
    H_EQUAL(files_in_folder(), 2);
    end();
}

/* Temporaries of a process that was killed are passed over, and a new file obeys the umask. */
static void leftovers_do_not_disturb(void)
{
    char left[64];
    struct stat st;
    begin();
    snprintf(left, sizeof left, ".troupe-%ld-0.tmp", (long)getpid());
    put_file(in_folder(left), "", 0);
    mode_t old = umask(027);
    trp_io_item item = two_by_two();
    H_OK(trp_io_save(in_folder("f.npy"), &item, 1, NULL));
    umask(old);
    H_EQUAL(stat(in_folder("f.npy"), &st), 0);
    H_EQUAL(st.st_mode & 07777, 0640);
    H_EQUAL(files_in_folder(), 2);
    end();
}

static void a_bare_name_goes_to_the_working_folder(void)
{
    begin();
    int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    H_CHECK(here >= 0 && chdir(folder) == 0);
    trp_io_item item = two_by_two();
    trp_status status = trp_io_save("g.npy", &item, 1, NULL);
    H_EQUAL(fchdir(here), 0);
    close(here);
    H_EQUAL(status, TRP_OK);
    H_EQUAL(files_in_folder(), 1);
    end();
}

/* Readers of safetensors, trp_io_open() among them, refuse a header of more than 100 MB. */
static void a_header_beyond_the_limit_is_not_written(void)
{
    const size_t limit = 100 * 1000 * 1000;
    char *value = malloc(limit + 1);
    trp_io_item item = two_by_two();
    trp_io_pair pair = {"key", value};
    trp_io_save_options with = {.metadata = &pair, .metadata_count = 1};
    begin();
    H_CHECK(value != NULL);
    memset(value, 'x', limit);
    value[limit] = '\0';
    item.array.name = "a";
    H_EQUAL(trp_io_save(in_folder("h.safetensors"), &item, 1, &with), TRP_E_UNSUPPORTED);
    H_SAYS("readers of safetensors accept 100000000");
    H_EQUAL(files_in_folder(), 0);
    free(value);
    end();
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {
        {"a_failed_write_changes_nothing", a_failed_write_changes_nothing}, /* first: it forks */
        {"round_trips", round_trips},
        {"many_arrays", many_arrays},
        {"hostile_safetensors", hostile_safetensors},
        {"foreign_types", foreign_types},
        {"deflated", deflated},
        {"hostile_archives", hostile_archives},
        {"what_is_no_file", what_is_no_file},
        {"shrinking", shrinking},
        {"options", options},
        {"refused_saves", refused_saves},
        {"a_header_beyond_the_limit_is_not_written", a_header_beyond_the_limit_is_not_written},
        {"a_file_is_replaced_whole", a_file_is_replaced_whole},
        {"leftovers_do_not_disturb", leftovers_do_not_disturb},
        {"a_bare_name_goes_to_the_working_folder", a_bare_name_goes_to_the_working_folder},
    };
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
