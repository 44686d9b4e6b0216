/* Files of arrays: what is written is read back, what contradicts itself is refused, and options do
 * what they say. In a folder of its own. SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/io_bed.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t elements_of(const trp_io_array *a)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < a->rank; i++)
        count *= (uint64_t)a->dim[i];
    return count;
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
    io_begin();
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 37 + i / 251);
    for (int format = TRP_IO_NPY; format <= TRP_IO_SAFETENSORS; format++) {
        for (trp_dtype type = 1; type < TRP_DTYPE_COUNT; type++) {
            const bool narrow = type == TRP_BF16 || type == TRP_F8E4M3 || type == TRP_F8E5M2 ||
                                type == TRP_F4E2M1 || type == TRP_F8E8M0;
            const bool lacking =
                type == TRP_I4 || (format == TRP_IO_SAFETENSORS ? type == TRP_C128 : narrow);
            for (uint32_t n = type % 4; n < 5 * 5 * 2; n += 4) {
                trp_io_item item = io_item(format == TRP_IO_NPY ? NULL : "x/y \"\xc3\x9f\\\n", type,
                                           n / 10, shapes[n % 5], data);
                item.array.fortran_order = n / 5 % 2 != 0 && format != TRP_IO_SAFETENSORS;
                const uint64_t bits = elements_of(&item.array) * trp_dtype_bits(type);
                const char *path = io_path(paths[format]);
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
                H_EQUAL(io_count(), 1);
                H_EQUAL(unlink(path), 0);
            }
        }
    }
    io_end();
}

/* Many arrays of many types, in an order that safetensors changes. */
static void many_arrays(void)
{
    enum { COUNT = 300 };
    static const trp_dtype types[] = {TRP_U8, TRP_F64, TRP_BOOL, TRP_F32, TRP_F16};
    static char names[COUNT][16];
    static trp_io_item items[COUNT];
    unsigned char data[64];
    io_begin();
    memset(data, 0x3c, sizeof data);
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i * 7919 % COUNT);
        items[i] = io_item(names[i], types[i % 5], 1, (int64_t[]){i % 7}, data);
    }
    for (int format = TRP_IO_NPZ; format <= TRP_IO_SAFETENSORS; format++) {
        const char *path = io_path("many");
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
        const char *path = io_path("many");
        H_OK(trp_io_save(path, NULL, 0, &(trp_io_save_options){.format = (trp_io_format)format}));
        trp_io_file *file;
        H_OK(trp_io_open(path, &file));
        H_EQUAL(trp_io_count(file), 0);
        trp_io_close(file);
    }
    io_end();
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
    const char *path = io_path("a.safetensors");
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
    io_begin();
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
        put_safetensors(io_path("b"), "{}", lengths[i].length, 0);
        H_IS(trp_io_open(io_path("b"), &file), TRP_E_ARGUMENT);
        H_SAYS(lengths[i].message);
    }
    io_end();
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
    io_begin();
    put_safetensors(io_path("f"), header, strlen(header), 12);
    H_OK(trp_io_open(io_path("f"), &file));
    for (uint64_t i = 0; i < 2; i++) {
        H_OK(trp_io_get(file, i, &a));
        H_EQUAL(a.type, TRP_DTYPE_NONE);
        H_EQUAL(a.bytes, 6);
        H_CHECK(strcmp(a.file_type, i == 0 ? "I16" : "F6_E3M2") == 0);
        H_OK(trp_io_read(file, i, bytes, 6, NULL));
        H_EQUAL(bytes[0] | bytes[5], 0);
    }
    trp_io_close(file);
    io_end();
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
    io_begin();
    io_put(io_path("z.npz"), deflated_npz, sizeof deflated_npz);
    trp_status status = trp_io_open(io_path("z.npz"), &file);
    if (status == TRP_E_MISSING) {
        H_SAYS("libz.so.1");
        H_SAYS("zlib1g");
        io_end();
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
        io_put(io_path("z.npz"), damaged, sizeof damaged);
        if (trp_io_open(io_path("z.npz"), &file) != TRP_OK)
            continue;
        if (trp_io_find(file, "a", &index) == TRP_OK && trp_io_get(file, index, &a) == TRP_OK &&
            a.bytes == 24 && trp_io_read(file, index, values, 24, NULL) == TRP_OK) {
            for (int k = 0; k < 6; k++)
                H_CHECK(values[k] == (float)k);
        }
        trp_io_close(file);
    }
    for (size_t length = 0; length < sizeof deflated_npz; length++) {
        io_put(io_path("z.npz"), deflated_npz, length);
        H_CHECK(trp_io_open(io_path("z.npz"), &file) != TRP_OK);
    }
    io_end();
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
    io_begin();
    trp_io_item items[] = {io_item("first", TRP_F64, 0, NULL, &one),
                           io_item("second", TRP_F64, 0, NULL, &one)};
    const char *path = io_path("h.npz");
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
        io_put(path, damaged, length);
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
        io_put(path, damaged, length);
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
    io_put(path, damaged, length);
    H_OK(trp_io_open(path, &file));
    H_IS(trp_io_read(file, 1, &back, 8, NULL), TRP_E_ARGUMENT);
    H_SAYS("h.npz: 'second': damaged data: expected the checksum");
    H_OK(trp_io_read(file, 0, &back, 8, NULL));
    trp_io_close(file);
    io_end();
}

/* --- What is no file of arrays --- */

static void refuse_open(const char *path, trp_status status, const char *message)
{
    trp_io_file *file = (trp_io_file *)io_folder;
    H_IS(trp_io_open(path, &file), status);
    H_CHECK(file == NULL);
    H_SAYS(message);
}

static void what_is_no_file(void)
{
    trp_io_file *file;
    io_begin();
    H_IS(trp_io_open(NULL, &file), TRP_E_ARGUMENT);
    H_IS(trp_io_open("x", NULL), TRP_E_ARGUMENT);
    refuse_open(io_path("none"), TRP_E_MISSING, "none: No such file or directory");
    refuse_open(io_folder, TRP_E_ARGUMENT, "not a regular file");
    refuse_open("/dev/null", TRP_E_ARGUMENT, "not a regular file");
    refuse_open("/dev/zero", TRP_E_ARGUMENT, "not a regular file");
    H_EQUAL(mkfifo(io_path("fifo"), 0600), 0);
    refuse_open(io_path("fifo"), TRP_E_ARGUMENT, "not a regular file"); /* nobody writes it */
    io_put(io_path("empty"), "", 0);
    refuse_open(io_path("empty"), TRP_E_ARGUMENT, "empty file");
    io_put(io_path("text"), "a text of some length", 21);
    refuse_open(io_path("text"), TRP_E_ARGUMENT, "not a .npy file");
    io_put(io_path("zip"), "PK\3\4", 4);
    refuse_open(io_path("zip"), TRP_E_ARGUMENT, "it has no end of its directory");
    char deep[300];
    memset(deep, 'd', sizeof deep);
    deep[sizeof deep - 1] = '\0';
    refuse_open(deep, TRP_E_SYSTEM, "...ddd");
    H_SAYS("File name too long");
    H_EQUAL(trp_io_count(NULL), 0);
    H_EQUAL(trp_io_file_format(NULL), TRP_IO_BY_NAME);
    H_CHECK(trp_io_metadata(NULL, "a") == NULL);
    trp_io_close(NULL);
    io_end();
}

/* It is cut short after it was opened. */
static void shrinking(void)
{
    static float data[1 << 20];
    trp_io_file *file;
    io_begin();
    const char *path = io_path("s.npy");
    trp_io_item item = io_item(NULL, TRP_F32, 1, (int64_t[]){1 << 20}, data);
    H_OK(trp_io_save(path, &item, 1, NULL));
    H_OK(trp_io_open(path, &file));
    H_EQUAL(truncate(path, 3 << 20), 0);
    for (uint32_t threads = 1; threads <= 8; threads *= 2) {
        trp_io_options o = {.threads = threads};
        H_IS(trp_io_read(file, 0, data, sizeof data, &o), TRP_E_ARGUMENT);
        H_SAYS("s.npy: truncated data: the file ends after 3145728 bytes");
    }
    trp_io_close(file);
    io_end();
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
    io_begin();
    const char *path = io_path("o.safetensors");
    seen s = {.thread = pthread_self(), .stop_at = UINT64_MAX};
    trp_io_item item = io_item("w", TRP_U8, 1, (int64_t[]){BYTES}, data);
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
    H_EQUAL(io_count(), 1);
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
    io_end();
}

H_CASES(H_CASE(round_trips), H_CASE(many_arrays), H_CASE(hostile_safetensors),
        H_CASE(foreign_types), H_CASE(deflated), H_CASE(hostile_archives), H_CASE(what_is_no_file),
        H_CASE(shrinking), H_CASE(options))
