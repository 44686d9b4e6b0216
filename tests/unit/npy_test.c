/*
 * Reading and writing .npy files. The sources are included: headers are looked at piece by piece.
 * Files go to a folder of their own below TMPDIR.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "../../cli/npy_dict.c"
#include "../../cli/npy_header.c"
#include "../../cli/npy_read.c"
#include "../../cli/npy_write.c"

static char folder[256];

/* --- Headers in memory --- */

typedef struct image {
    unsigned char bytes[1024];
    size_t len;
} image;

/* A file with this dict, padded to `padded` bytes of header, and no data. */
static image make(unsigned major, const char *dict_text, size_t padded)
{
    image f = {.len = 0};
    size_t text_len = strlen(dict_text);
    size_t header = text_len > padded ? text_len : padded;
    memset(f.bytes, ' ', sizeof(f.bytes));
    memcpy(f.bytes, "\x93NUMPY", 6);
    f.bytes[6] = (unsigned char)major;
    f.bytes[7] = 0;
    size_t at = 8;
    for (int i = 0; i < (major == 1 ? 2 : 4); i++) {
        f.bytes[at++] = (unsigned char)(header >> 8 * i & 0xff);
    }
    assert_true(at + header <= sizeof(f.bytes));
    memcpy(f.bytes + at, dict_text, text_len);
    f.len = at + header;
    return f;
}

/* Parses from memory of just that size, so that a sanitizer sees a read too far. */
static bool parse(const unsigned char *bytes, size_t len, uint64_t file_size, npy_info *info,
                  char *error, size_t error_size)
{
    unsigned char *copy = malloc(len == 0 ? 1 : len);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    bool ok = npy_parse_header(copy, len, file_size, info, error, error_size);
    free(copy);
    return ok;
}

static void refuse_bytes(const unsigned char *bytes, size_t len, uint64_t file_size,
                         const char *message)
{
    char error[256] = "";
    npy_info info = {.rows = 77};
    if (parse(bytes, len, file_size, &info, error, sizeof(error))) {
        fail_msg("accepted, expected: %s", message);
    }
    assert_string_equal(error, message);
    assert_true(info.rows == 77);
}

static void refuse_dict(const char *dict_text, const char *message)
{
    for (unsigned major = 1; major <= 3; major++) {
        image f = make(major, dict_text, 0);
        refuse_bytes(f.bytes, f.len, f.len, message);
    }
}

static npy_info accept_dict(const char *dict_text, uint64_t data_bytes)
{
    npy_info info = {0};
    for (unsigned major = 1; major <= 3; major++) {
        char error[256] = "";
        image f = make(major, dict_text, 0);
        if (!parse(f.bytes, f.len, f.len + data_bytes, &info, error, sizeof(error))) {
            fail_msg("refused %s: %s", dict_text, error);
        }
        assert_true(info.data_offset == f.len && info.data_bytes == data_bytes);
    }
    return info;
}

#define DICT(descr, order, shape)                                                                  \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }"

static void accepted_dtypes(void **state)
{
    (void)state;
    const struct {
        const char *dict_text;
        char kind;
        uint32_t item_size;
    } cases[] = {
        {DICT("'<f2'", "False", "(3, 4)"), 'f', 2},  {DICT("'=f2'", "False", "(3, 4)"), 'f', 2},
        {DICT("'<f4'", "False", "(3, 4)"), 'f', 4},  {DICT("'=f4'", "False", "(3, 4)"), 'f', 4},
        {DICT("'<f8'", "False", "(3, 4)"), 'f', 8},  {DICT("'=f8'", "False", "(3, 4)"), 'f', 8},
        {DICT("'<c8'", "False", "(3, 4)"), 'c', 8},  {DICT("'=c16'", "False", "(3, 4)"), 'c', 16},
        {DICT("'<c16'", "True", "(3, 4)"), 'c', 16}, {DICT("'<i4'", "False", "(3, 4)"), 'i', 4},
        {DICT("'=i4'", "False", "(3, 4)"), 'i', 4},  {DICT("'|i1'", "False", "(3, 4)"), 'i', 1},
        {DICT("'|u1'", "False", "(3, 4)"), 'u', 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        npy_info info = accept_dict(cases[i].dict_text, 12 * cases[i].item_size);
        assert_int_equal(info.kind, cases[i].kind);
        assert_int_equal(info.item_size, cases[i].item_size);
        assert_false(info.vector);
    }
}

static void accepted_vectors(void **state)
{
    (void)state;
    npy_info info = accept_dict(DICT("'<f4'", "False", "(12,)"), 48);
    assert_true(info.vector && info.rows == 12 && info.cols == 1);
    info = accept_dict(DICT("'<f8'", "True", "(0,)"), 0);
    assert_true(info.vector && info.rows == 0 && info.cols == 1);
    refuse_dict(DICT("'<f4'", "False", "(12,)"), "truncated data: shape (12,) of 4-byte elements "
                                                 "is 48 bytes, the file has 0 after its header");
}

static void accepted_orders_and_shapes(void **state)
{
    (void)state;
    npy_info info = accept_dict(DICT("'<f4'", "False", "(3, 5)"), 60);
    assert_true(info.rows == 3 && info.cols == 5 && !info.fortran_order);
    info = accept_dict(DICT("'<f4'", "True", "(3, 5)"), 60);
    assert_true(info.rows == 3 && info.cols == 5 && info.fortran_order);
    info = accept_dict(DICT("'<f8'", "False", "(1, 1)"), 8);
    assert_true(info.rows == 1 && info.cols == 1);
    info = accept_dict(DICT("'<f8'", "False", "(0, 7)"), 0);
    assert_true(info.rows == 0 && info.cols == 7);
    info = accept_dict(DICT("'<f8'", "True", "(7, 0)"), 0);
    assert_true(info.rows == 7 && info.cols == 0);
    accept_dict(DICT("'<f8'", "False", "(0, 0)"), 0);
    info = accept_dict(DICT("'<f8'", "False", "(0, 9223372036854775807)"), 0);
    assert_true(info.cols == INT64_MAX);
    info = accept_dict(DICT("'<f4'", "False", "(2147483648, 1073741823)"),
                       (UINT64_C(1) << 33) * 1073741823);
    assert_true(info.rows == UINT64_C(1) << 31);
}

static void accepted_spellings(void **state)
{
    (void)state;
    accept_dict("{\"descr\":\"<f4\",\"fortran_order\":False,\"shape\":(2,3)}", 24);
    accept_dict("\t{ 'shape' : ( 2 , 3 , ) ,\r\n 'descr': '<f4', 'fortran_order': False } \n", 24);
    accept_dict("{'fortran_order': False, 'shape': (+2, 3), 'descr': '<f4'}", 24);
    accept_dict(DICT("'<f4'", "False", "(2L, 3L)"), 24); /* NumPy under Python 2 */
    /* Version 1.0 with 64 KiB less one of header would not fit in `image`; this is long enough. */
    image f = make(2, DICT("'<f4'", "False", "(2, 3)"), 900);
    npy_info info;
    assert_true(parse(f.bytes, f.len, f.len + 24, &info, NULL, 0));
    assert_int_equal(info.data_offset, 912);
}

static void files_that_are_too_short(void **state)
{
    (void)state;
    image f = make(1, DICT("'<f4'", "False", "(3, 4)"), 118);
    refuse_bytes(f.bytes, 0, 0, "empty file: expected a .npy file");
    refuse_bytes(f.bytes, 1, 1,
                 "truncated header: the file ends after 1 bytes, before the version");
    refuse_bytes(f.bytes, 7, 7,
                 "truncated header: the file ends after 7 bytes, before the version");
    refuse_bytes(f.bytes, 9, 9,
                 "truncated header: the file ends after 9 bytes, in the header length");
    refuse_bytes(f.bytes, 10, 10,
                 "truncated header: expected 118 bytes after the first 10, the file has 0");
    refuse_bytes(f.bytes, 127, 127,
                 "truncated header: expected 118 bytes after the first 10, the file has 117");
    refuse_bytes(f.bytes, 127, 128, "truncated header: expected 128 bytes, got 127");
    refuse_bytes(f.bytes, 128, 128,
                 "truncated data: shape (3, 4) of 4-byte elements is 48 bytes, the file has 0 "
                 "after its header");
    refuse_bytes(f.bytes, 128, 175,
                 "truncated data: shape (3, 4) of 4-byte elements is 48 bytes, the file has 47 "
                 "after its header");
    /* Each length, whatever the message. */
    for (unsigned major = 1; major <= 3; major++) {
        f = make(major, DICT("'<f4'", "False", "(3, 4)"), 0);
        for (size_t len = 0; len < f.len; len++) {
            npy_info info;
            assert_false(parse(f.bytes, len, len, &info, NULL, 0));
        }
    }
    f = make(3, DICT("'<f4'", "False", "(3, 4)"), 0);
    refuse_bytes(f.bytes, 11, 11,
                 "truncated header: the file ends after 11 bytes, in the header length");
}

static void files_that_are_too_long(void **state)
{
    (void)state;
    image f = make(1, DICT("'<f8'", "False", "(3, 4)"), 118);
    refuse_bytes(f.bytes, f.len, f.len + 97,
                 "trailing bytes: shape (3, 4) of 8-byte elements is 96 bytes, the file has 1 "
                 "more; expected one array alone");
    f = make(1, DICT("'<f8'", "False", "(0, 4)"), 118);
    refuse_bytes(f.bytes, f.len, f.len + 8,
                 "trailing bytes: shape (0, 4) of 8-byte elements is 0 bytes, the file has 8 "
                 "more; expected one array alone");
}

static void what_is_not_npy(void **state)
{
    (void)state;
    const unsigned char zip[] = "PK\x03\x04 and so on";
    refuse_bytes(zip, sizeof(zip), sizeof(zip),
                 "not a .npy file: expected the first bytes \\x93NUMPY, got PK\\x03\\x04 a");
    refuse_bytes(zip, 1, 1, "not a .npy file: expected the first bytes \\x93NUMPY, got P");
    image f = make(1, DICT("'<f4'", "False", "(3, 4)"), 0);
    const unsigned bad_versions[][2] = {{0, 0}, {0, 1}, {1, 1}, {2, 1}, {3, 255}, {4, 0}, {255, 0}};
    for (size_t i = 0; i < sizeof(bad_versions) / sizeof(bad_versions[0]); i++) {
        char message[128];
        f.bytes[6] = (unsigned char)bad_versions[i][0];
        f.bytes[7] = (unsigned char)bad_versions[i][1];
        snprintf(message, sizeof(message), "unknown .npy version %u.%u: expected 1.0, 2.0 or 3.0",
                 bad_versions[i][0], bad_versions[i][1]);
        refuse_bytes(f.bytes, f.len, f.len, message);
    }
}

static void huge_header_lengths(void **state)
{
    (void)state;
    image f = make(2, DICT("'<f4'", "False", "(3, 4)"), 0);
    memset(f.bytes + 8, 0xff, 4);
    refuse_bytes(f.bytes, f.len, UINT64_MAX,
                 "header length of 4294967295 bytes: expected at most 1048576");
    memcpy(f.bytes + 8, "\x01\x00\x10\x00", 4);
    refuse_bytes(f.bytes, f.len, UINT64_MAX,
                 "header length of 1048577 bytes: expected at most 1048576");
    f.bytes[8] = 0;
    refuse_bytes(f.bytes, f.len, f.len,
                 "truncated header: expected 1048576 bytes after the first 12, the file has 59");
    refuse_bytes(f.bytes, f.len, UINT64_MAX, "truncated header: expected 1048588 bytes, got 71");
}

static void longest_header(void **state)
{
    (void)state;
    const size_t len = NPY_PREAMBLE_V2 + NPY_HEADER_LIMIT;
    unsigned char *bytes = malloc(len);
    assert_non_null(bytes);
    memset(bytes, ' ', len);
    image f = make(3, DICT("'<f4'", "False", "(3, 4)"), 0);
    memcpy(bytes, f.bytes, f.len);
    memcpy(bytes + 8, "\x00\x00\x10\x00", 4);
    npy_info info;
    assert_true(parse(bytes, len, len + 48, &info, NULL, 0));
    assert_true(info.data_offset == len);
    /* And one that is digits to its end. */
    memset(bytes + NPY_PREAMBLE_V2, '1', NPY_HEADER_LIMIT);
    memcpy(bytes + NPY_PREAMBLE_V2, "{'shape':(", 10);
    assert_false(parse(bytes, len, len, &info, NULL, 0));
    free(bytes);
}

static void refused_dtypes(void **state)
{
    (void)state;
    const struct {
        const char *dict_text, *message;
    } cases[] = {
        {DICT("'|O'", "False", "(3, 4)"), "object dtype '|O': " NPY_DTYPES},
        {DICT("'O'", "False", "(3, 4)"), "object dtype 'O': " NPY_DTYPES},
        {DICT("'<i2'", "False", "(3, 4)"), "integer dtype '<i2': " NPY_DTYPES},
        {DICT("'<i1'", "False", "(3, 4)"), "integer dtype '<i1': " NPY_DTYPES},
        {DICT("'i4'", "False", "(3, 4)"), "integer dtype 'i4': " NPY_DTYPES},
        {DICT("'>i8'", "False", "(3, 4)"), "integer dtype '>i8': " NPY_DTYPES},
        {DICT("'<u4'", "False", "(3, 4)"), "unsigned integer dtype '<u4': " NPY_DTYPES},
        {DICT("'>u1'", "False", "(3, 4)"), "unsigned integer dtype '>u1': " NPY_DTYPES},
        {DICT("'|b1'", "False", "(3, 4)"), "boolean dtype '|b1': " NPY_DTYPES},
        {DICT("'<f16'", "False", "(3, 4)"), "floating point dtype '<f16': " NPY_DTYPES},
        {DICT("'f4'", "False", "(3, 4)"), "floating point dtype 'f4': " NPY_DTYPES},
        {DICT("'|f4'", "False", "(3, 4)"), "floating point dtype '|f4': " NPY_DTYPES},
        {DICT("'<f4 '", "False", "(3, 4)"), "floating point dtype '<f4 ': " NPY_DTYPES},
        {DICT("'<c32'", "False", "(3, 4)"), "complex dtype '<c32': " NPY_DTYPES},
        {DICT("'|c8'", "False", "(3, 4)"), "complex dtype '|c8': " NPY_DTYPES},
        {DICT("'|S5'", "False", "(3, 4)"), "byte string dtype '|S5': " NPY_DTYPES},
        {DICT("'<U5'", "False", "(3, 4)"), "text dtype '<U5': " NPY_DTYPES},
        {DICT("'|V2'", "False", "(3, 4)"), "void dtype '|V2': " NPY_DTYPES},
        {DICT("'<M8[ns]'", "False", "(3, 4)"), "date dtype '<M8[ns]': " NPY_DTYPES},
        {DICT("'<m8'", "False", "(3, 4)"), "time difference dtype '<m8': " NPY_DTYPES},
        {DICT("''", "False", "(3, 4)"), "unknown dtype '': " NPY_DTYPES},
        {DICT("'<'", "False", "(3, 4)"), "unknown dtype '<': " NPY_DTYPES},
        {DICT("'\xc3\x9f'", "False", "(3, 4)"), "unknown dtype '\\xc3\\x9f': " NPY_DTYPES},
        {DICT("'>f4'", "False", "(3, 4)"),
         "big-endian dtype '>f4': " NPY_DTYPES "; convert with a.astype('<f4')"},
        {DICT("'>f8'", "False", "(3, 4)"),
         "big-endian dtype '>f8': " NPY_DTYPES "; convert with a.astype('<f8')"},
        {DICT("'>c16'", "False", "(3, 4)"),
         "big-endian dtype '>c16': " NPY_DTYPES "; convert with a.astype('<c16')"},
        {DICT("'>i4'", "False", "(3, 4)"),
         "big-endian dtype '>i4': " NPY_DTYPES "; convert with a.astype('<i4')"},
        {DICT("[('x', '<f4'), ('y', '<f4')]", "False", "(3,)"), "structured dtype: " NPY_DTYPES},
        {DICT("('<f4', (2,))", "False", "(3,)"),
         "bad header: expected a string for 'descr' at byte 10, got ("},
        {DICT("None", "False", "(3, 4)"),
         "bad header: expected a string for 'descr' at byte 10, got None"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        refuse_dict(cases[i].dict_text, cases[i].message);
    }
}

#define RANKS "expected a matrix, 2-D, or a vector, 1-D"

static void refused_shapes(void **state)
{
    (void)state;
    const struct {
        const char *dict_text, *message;
    } cases[] = {
        {DICT("'<f4'", "False", "()"), "0-D array of shape (): " RANKS},
        {DICT("'<f4'", "False", "(2, 3, 4)"), "3-D array of shape (2, 3, 4): " RANKS},
        {DICT("'<f4'", "False", "(2, 3, 4, 5,)"), "4-D array of shape (2, 3, 4, 5,): " RANKS},
        {DICT("'<f8'", "False", "(1152921504606846976,)"),
         "bad shape: (1152921504606846976,) of 8-byte elements is more than 2^63 - 1 bytes"},
        {DICT("'<f4'", "False", "(-3, 4)"), "bad shape: dimension -3 is negative"},
        {DICT("'<f4'", "False", "(3, -4)"), "bad shape: dimension -4 is negative"},
        {DICT("'<f4'", "False", "(3, 9223372036854775808)"),
         "bad shape: dimension 9223372036854775808 is larger than 2^63 - 1"},
        {DICT("'<f4'", "False", "(18446744073709551616, 1)"),
         "bad shape: dimension 18446744073709551616 is larger than 2^63 - 1"},
        {DICT("'<f4'", "False", "(99999999999999999999999999999, 0)"),
         "bad shape: dimension 99999999999999999999999999999 is larger than 2^63 - 1"},
        {DICT("'<f4'", "False", "(4294967296, 4294967296)"),
         "bad shape: (4294967296, 4294967296) of 4-byte elements is more than 2^63 - 1 bytes"},
        {DICT("'<f8'", "False", "(4611686018427387904, 4)"),
         "bad shape: (4611686018427387904, 4) of 8-byte elements is more than 2^63 - 1 bytes"},
        {DICT("'<f8'", "False", "(1152921504606846976, 1)"),
         "bad shape: (1152921504606846976, 1) of 8-byte elements is more than 2^63 - 1 bytes"},
        {DICT("'<f4'", "False", "(12)"), "bad header: expected ',' at byte 53, got )"},
        {DICT("'<f4'", "False", "12"),
         "bad header: expected a tuple for 'shape' at byte 50, got 12"},
        {DICT("'<f4'", "False", "[3, 4]"),
         "bad header: expected a tuple for 'shape' at byte 50, got ["},
        {DICT("'<f4'", "False", "(3, 4"), "bad header: expected an integer in 'shape' at byte 57, "
                                          "got }"},
        {DICT("'<f4'", "False", "(,)"),
         "bad header: expected an integer in 'shape' at byte 51, got ,"},
        {DICT("'<f4'", "False", "(3, 4,,)"),
         "bad header: expected an integer in 'shape' at byte 56, got ,"},
        {DICT("'<f4'", "False", "(3 4)"), "bad header: expected ',' at byte 53, got 4"},
        {DICT("'<f4'", "False", "(3, True)"),
         "bad header: expected an integer in 'shape' at byte 54, got True"},
        {DICT("'<f4'", "False", "(3, 4.0)"),
         "bad header: expected a decimal integer at byte 54, got 4.0"},
        {DICT("'<f4'", "False", "(3, 0x4)"),
         "bad header: expected a decimal integer at byte 54, got 0x4"},
        {DICT("'<f4'", "False", "(3, 04)"),
         "bad header: expected a decimal integer at byte 54, got 04"},
        {DICT("'<f4'", "False", "(3, 4LL)"),
         "bad header: expected a decimal integer at byte 54, got 4LL"},
        {DICT("'<f4'", "False", "(3, -)"),
         "bad header: expected a decimal integer at byte 54, got -"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        refuse_dict(cases[i].dict_text, cases[i].message);
    }
}

static void malformed_dicts(void **state)
{
    (void)state;
#define KEY " 'descr', 'fortran_order' or 'shape'"
    const struct {
        const char *dict_text, *message;
    } cases[] = {
        {"", "bad header: expected '{', got the end of the header"},
        {"   \n", "bad header: expected '{', got the end of the header"},
        {"[]", "bad header: expected '{' at byte 0, got ["},
        {"{}", "bad header: key 'descr' is missing"},
        {"{'descr': '<f4', 'shape': (3, 4)}", "bad header: key 'fortran_order' is missing"},
        {"{'descr': '<f4', 'fortran_order': False}", "bad header: key 'shape' is missing"},
        {"{'fortran_order': False, 'shape': (3, 4)}", "bad header: key 'descr' is missing"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}",
         "bad header: key 'descr' comes twice"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), 'shape': (3, 4)}",
         "bad header: key 'shape' comes twice"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), 'more': 1}",
         "bad header: expected a key" KEY " at byte 59, got more"},
        {"{'Descr': '<f4'}", "bad header: expected a key" KEY " at byte 2, got Descr"},
        {"{descr: '<f4'}", "bad header: expected a key" KEY " at byte 1, got descr"},
        {"{'descr' '<f4'}", "bad header: expected ':' at byte 10, got <f4"},
        {"{'descr': '<f4' 'shape': (3, 4)}", "bad header: expected ',' or '}' at byte 17, got "
                                             "shape"},
        {"{'descr': '<f4',, 'shape': (3, 4)}",
         "bad header: expected a key" KEY " at byte 16, got ,"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), ",
         "bad header: expected a key" KEY ", got the end of the header"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)",
         "bad header: expected ',' or '}', got the end of the header"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}}",
         "bad header: expected nothing after the '}' at byte 57, got }"},
        {"{'descr': '<f4', 'fortran_order': false, 'shape': (3, 4)}",
         "bad header: expected True or False for 'fortran_order' at byte 34, got false"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 4)}",
         "bad header: expected True or False for 'fortran_order' at byte 34, got 0"},
        {"{'descr': '<f4', 'fortran_order': 'True', 'shape': (3, 4)}",
         "bad header: expected True or False for 'fortran_order' at byte 35, got True"},
        {"{'descr': '<f4", "bad header: unterminated string at byte 10: '<f4"},
        {"{'descr\n': '<f4'}", "bad header: unterminated string at byte 1: 'descr"},
        {"{'descr\": '<f4'}", "bad header: expected a key" KEY " at byte 2, got descr\": "},
        {"{'", "bad header: unterminated string at byte 1: '"},
        {"{'de\\x73cr': '<f4'}", "bad header: backslash in the string at byte 1, none is expected"},
        {"{#}", "bad header: unexpected character # at byte 1"},
        {"{\x01}", "bad header: unexpected character \\x01 at byte 1"},
        {"{'descr': b'<f4'}", "bad header: expected a string for 'descr' at byte 10, got b"},
        {"{'"
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa':"
         " 1}",
         "bad header: expected a key" KEY " at byte 2, got "
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa..."},
    };
#undef KEY
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        refuse_dict(cases[i].dict_text, cases[i].message);
    }
    /* A zero byte is no end of the text. */
    image f = make(1, DICT("'<f4'", "False", "(3, 4)"), 118);
    f.bytes[f.len - 1] = 0;
    refuse_bytes(f.bytes, f.len, f.len + 48, "bad header: unexpected character \\x00 at byte 117");
}

static void error_text_fits_any_size(void **state)
{
    (void)state;
    image f = make(1, "{#}", 0);
    npy_info info;
    assert_false(parse(f.bytes, f.len, f.len, &info, NULL, 0));
    for (size_t size = 1; size < 64; size++) {
        char *error = malloc(size);
        assert_non_null(error);
        assert_false(parse(f.bytes, f.len, f.len, &info, error, size));
        assert_true(strnlen(error, size) < size);
        free(error);
    }
}

/* --- Files --- */

static const char *in_folder(const char *name)
{
    static char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* How many files the folder has: a temporary that is left behind is counted. */
static int files_in_folder(void)
{
    int count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(dir);
    return count;
}

static void put_file(const char *path, const void *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_true(write_all(fd, bytes, len));
    assert_int_equal(close(fd), 0);
}

/* For `cols`: a vector. */
#define NO_COLS UINT64_MAX

static void round_trip(char kind, uint32_t item_size, bool fortran, uint64_t rows, uint64_t cols)
{
    const npy_info shape = {.kind = kind,
                            .item_size = item_size,
                            .vector = cols == NO_COLS,
                            .fortran_order = fortran,
                            .rows = rows,
                            .cols = cols == NO_COLS ? 1 : cols};
    cols = shape.cols;
    const size_t bytes = (size_t)(rows * cols * item_size);
    unsigned char *data = malloc(bytes + 1), *back = malloc(bytes + 1);
    assert_true(data != NULL && back != NULL);
    for (size_t i = 0; i < bytes; i++) {
        data[i] = (unsigned char)(i * 37 + 11);
    }
    memset(back, 0xa5, bytes + 1);

    char error[256] = "";
    const char *path = in_folder("a.npy");
    if (!npy_write(path, &shape, bytes == 0 ? NULL : data, error, sizeof(error))) {
        fail_msg("%s", error);
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    npy_info info;
    if (!npy_read_info(fd, &info, error, sizeof(error)) ||
        !npy_read_data(fd, &info, back, error, sizeof(error))) {
        fail_msg("%s", error);
    }
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
    close(fd);
    assert_true(info.kind == kind && info.item_size == item_size && info.fortran_order == fortran);
    assert_int_equal(info.vector, shape.vector);
    assert_true(info.rows == rows && info.cols == cols && info.data_bytes == bytes);
    assert_true(info.data_offset % 64 == 0);
    assert_memory_equal(data, back, bytes);
    assert_int_equal(back[bytes], 0xa5);
    free(data);
    free(back);
    assert_int_equal(files_in_folder(), 1);
    assert_int_equal(unlink(path), 0);
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    const uint64_t dims[] = {0, 1, 2, 9, 10, 101, 1000};
    for (size_t i = 0; i < 7; i++) {
        for (size_t j = 0; j < 7; j++) {
            for (size_t t = 0; t < sizeof(dtypes) / sizeof(dtypes[0]); t++) {
                if (dims[i] * dims[j] < 100000 || t < 2) {
                    round_trip(dtypes[t].kind, dtypes[t].item_size, (i + j + t) % 2 != 0, dims[i],
                               dims[j]);
                }
            }
        }
        round_trip('f', 4, false, dims[i], NO_COLS);
        round_trip('u', 1, false, dims[i], NO_COLS);
    }
    round_trip('f', 4, false, 0, INT64_MAX);
    round_trip('f', 8, true, INT64_MAX, 0);
}

static void array_round_trip(const npy_array *shape, size_t bytes)
{
    unsigned char data[1024], back[1024];
    char error[256] = "";
    const char *path = in_folder("a.npy");
    npy_array array;
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (unsigned char)(i * 37 + 11);
    }
    memset(back, 0xa5, sizeof(back));
    assert_true(bytes < sizeof(back));
    if (!npy_write_array(path, shape, data, error, sizeof(error))) {
        fail_msg("%s", error);
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    if (!npy_read_array(fd, &array, error, sizeof(error)) ||
        !npy_read_array_data(fd, &array, back, error, sizeof(error))) {
        fail_msg("%s", error);
    }
    assert_memory_equal(data, back, bytes);
    assert_int_equal(back[bytes], 0xa5);
    assert_true(array.kind == shape->kind && array.item_size == shape->item_size);
    assert_true(array.fortran_order == shape->fortran_order && array.rank == shape->rank);
    assert_memory_equal(array.dim, shape->dim, shape->rank * sizeof(*shape->dim));
    assert_true(array.data_bytes == bytes && array.data_offset % 64 == 0);
    /* Who wants a matrix refuses the same file. */
    npy_info info;
    bool narrow = npy_read_info(fd, &info, error, sizeof(error));
    assert_int_equal(narrow, shape->rank <= 2);
    if (!narrow) {
        assert_non_null(strstr(error, "expected a matrix, 2-D, or a vector, 1-D"));
    }
    close(fd);
    assert_int_equal(unlink(path), 0);
}

static void arrays_are_read_back(void **state)
{
    (void)state;
    npy_array shape = {.kind = 'f', .item_size = 4, .rank = 8, .dim = {1, 2, 3, 2, 1, 2, 3, 2}};
    for (int fortran = 0; fortran < 2; fortran++) {
        size_t bytes = 4;
        shape.fortran_order = fortran != 0;
        for (shape.rank = 1; shape.rank <= NPY_RANK_MAX; shape.rank++) {
            bytes *= (size_t)shape.dim[shape.rank - 1];
            array_round_trip(&shape, bytes);
        }
    }
    for (shape.rank = 1; shape.rank <= NPY_RANK_MAX; shape.rank++) {
        npy_array empty = shape;
        for (uint32_t i = 0; i < empty.rank; i++) {
            empty.dim[i] = i == empty.rank / 2 ? 0 : INT64_MAX;
        }
        array_round_trip(&empty, 0);
    }
}

static void refused_arrays(void **state)
{
    (void)state;
    const struct {
        const char *dict_text, *message;
    } cases[] = {
        {DICT("'<f4'", "False", "()"), "0-D array of shape (): expected 1 to 8 dimensions"},
        {DICT("'<f4'", "False", "(1, 2, 3, 4, 5, 6, 7, 8, 9)"),
         "9-D array of shape (1, 2, 3, 4, 5, 6, 7, 8, 9): expected 1 to 8 dimensions"},
        {DICT("'<f8'", "False", "(1048576, 1048576, 1048576)"),
         "bad shape: (1048576, 1048576, 1048576) of 8-byte elements is more than 2^63 - 1 bytes"},
        {DICT("'<f4'", "False", "(2, 3, 4)"),
         "truncated data: shape (2, 3, 4) of 4-byte elements is 96 bytes, the file has 0 after "
         "its header"},
        {DICT("'<f4'", "False", "(2, 3, -4)"), "bad shape: dimension -4 is negative"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char error[256] = "";
        npy_array array = {.rank = 77};
        image f = make(1, cases[i].dict_text, 0);
        assert_false(npy_parse_array(f.bytes, f.len, f.len, &array, error, sizeof(error)));
        assert_string_equal(error, cases[i].message);
        assert_int_equal(array.rank, 77);
    }
    npy_array shape = {.kind = 'f', .item_size = 4};
    char error[256] = "";
    assert_false(npy_write_array("no.npy", &shape, NULL, error, sizeof(error)));
    assert_string_equal(error, "writing no.npy: 0-D array: expected 1 to 8 dimensions");
    shape.rank = NPY_RANK_MAX + 1;
    assert_false(npy_write_array("no.npy", &shape, NULL, error, sizeof(error)));
    assert_string_equal(error, "writing no.npy: 9-D array: expected 1 to 8 dimensions");
}

/* The bytes that numpy.save (2.x) writes for these. */
static void the_header_is_numpys(void **state)
{
    (void)state;
    npy_info shape = {.kind = 'f', .item_size = 4, .rows = 3, .cols = 4, .fortran_order = true};
    npy_array array = npy_array_of(&shape);
    npy_header_bytes header = npy_format_header(&array);
    assert_int_equal(header.len, 128);
    const char *expected = "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': True, "
                           "'shape': (3, 4), }";
    const size_t text_len = 10 + 58;
    assert_memory_equal(header.bytes, expected, text_len);
    for (size_t i = text_len; i < 127; i++) {
        assert_int_equal(header.bytes[i], ' ');
    }
    assert_int_equal(header.bytes[127], '\n');
    shape = (npy_info){.kind = 'i', .item_size = 1, .vector = true, .rows = 12, .cols = 1};
    array = npy_array_of(&shape);
    header = npy_format_header(&array);
    assert_int_equal(header.len, 128);
    expected = "\x93NUMPY\x01\x00v\x00{'descr': '|i1', 'fortran_order': False, "
               "'shape': (12,), }  ";
    assert_memory_equal(header.bytes, expected, 10 + 58);
    /* The longest one. */
    shape = (npy_info){.kind = 'c', .item_size = 16};
    shape.rows = 0;
    shape.cols = INT64_MAX;
    shape.fortran_order = false;
    array = npy_array_of(&shape);
    header = npy_format_header(&array);
    assert_int_equal(header.len, 128);
    assert_true(parse(header.bytes, header.len, header.len, &shape, NULL, 0));
    assert_true(shape.cols == INT64_MAX);
}

static void read_errors(void **state)
{
    (void)state;
    char error[256] = "";
    npy_info info;
    assert_false(npy_read_info(-1, &info, error, sizeof(error)));
    assert_string_equal(error, "reading the header: Bad file descriptor");
    int fd = open(folder, O_RDONLY | O_CLOEXEC);
    assert_false(npy_read_info(fd, &info, error, sizeof(error)));
    assert_string_equal(error, "not a regular file");
    close(fd);
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_false(npy_read_info(fd, &info, error, sizeof(error)));
    assert_string_equal(error, "not a regular file");
    close(fd);

    const char *path = in_folder("b.npy");
    put_file(path, "", 0);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_false(npy_read_info(fd, &info, error, sizeof(error)));
    assert_string_equal(error, "empty file: expected a .npy file");
    image f = make(1, DICT("'<f4'", "False", "(3, 4)"), 118);
    assert_int_equal(pwrite(fd, f.bytes, 100, 0), 100);
    assert_false(npy_read_info(fd, &info, error, sizeof(error)));
    assert_string_equal(error,
                        "truncated header: expected 118 bytes after the first 10, the file has 90");
    assert_int_equal(pwrite(fd, f.bytes, f.len, 0), f.len);
    assert_int_equal(ftruncate(fd, 128 + 48), 0);
    assert_true(npy_read_info(fd, &info, error, sizeof(error)));
    /* It shrinks after its header was read. */
    float data[12];
    assert_int_equal(ftruncate(fd, 128 + 20), 0);
    assert_false(npy_read_data(fd, &info, data, error, sizeof(error)));
    assert_string_equal(error, "truncated data: the file ends after 148 bytes, expected 176");
    close(fd);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_false(npy_read_data(fd, &info, data, error, sizeof(error)));
    assert_string_equal(error, "reading the data: Bad file descriptor");
    close(fd);
    unlink(path);
}

static void refuse_write(const char *path, const npy_info *shape, const void *data, const char *why)
{
    char error[512] = "", message[768];
    int before = files_in_folder();
    assert_false(npy_write(path, shape, data, error, sizeof(error)));
    snprintf(message, sizeof(message), "writing %s: %s", path, why);
    assert_string_equal(error, message);
    assert_int_equal(files_in_folder(), before);
    assert_false(npy_write(path, shape, data, NULL, 0));
}

static const double four[4] = {1, 2, 3, 4};
static const npy_info two_by_two = {.kind = 'f', .item_size = 8, .rows = 2, .cols = 2};

static void write_refusals(void **state)
{
    (void)state;
    const char *path = in_folder("c.npy");
    npy_info shape = two_by_two;
    shape.kind = 'i';
    refuse_write(path, &shape, four, "dtype i8: expected f8, f4, f2, c16, c8, i4, i1 or u1");
    shape = two_by_two;
    shape.item_size = 1;
    refuse_write(path, &shape, four, "dtype f1: expected f8, f4, f2, c16, c8, i4, i1 or u1");
    shape = two_by_two;
    shape.vector = true;
    refuse_write(path, &shape, four, "a vector of 2 columns: expected 1");
    shape = two_by_two;
    shape.rows = UINT64_C(1) << 61;
    refuse_write(path, &shape, four, "shape (2305843009213693952, 2) is more than 2^63 - 1 bytes");
    shape.rows = UINT64_MAX;
    shape.cols = 0;
    refuse_write(path, &shape, four, "shape (18446744073709551615, 0) is more than 2^63 - 1 bytes");
    refuse_write(path, &two_by_two, NULL, "no data for 32 bytes");
    assert_int_equal(files_in_folder(), 0);

    refuse_write("", &two_by_two, four, "expected the name of a file");
    refuse_write(folder, &two_by_two, four, "it exists and is not a regular file");
    refuse_write("/dev/null", &two_by_two, four, "it exists and is not a regular file");
    refuse_write(in_folder("new/"), &two_by_two, four, "expected the name of a file");
    refuse_write(in_folder("none/c.npy"), &two_by_two, four,
                 "making a temporary file in its folder: No such file or directory");
    char link_path[512];
    snprintf(link_path, sizeof(link_path), "%s", in_folder("link"));
    assert_int_equal(symlink("/dev/null", link_path), 0);
    refuse_write(link_path, &two_by_two, four, "it exists and is not a regular file");
    unlink(link_path);
    assert_int_equal(symlink("nothing", link_path), 0);
    refuse_write(link_path, &two_by_two, four, "No such file or directory");
    unlink(link_path);
}

/* A write that fails half-way leaves the old file as it was, and no temporary. */
static void a_failed_write_changes_nothing(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof(path), "%s", in_folder("d.npy"));
    put_file(path, "old", 3);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char error[512], message[640];
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){140, 140});
        bool ok = npy_write(path, &two_by_two, four, error, sizeof(error));
        snprintf(message, sizeof(message), "writing %s: File too large", path);
        _exit(ok ? 1 : strcmp(error, message) != 0 ? 2 : 0);
    }
    int status = 0;
    assert_true(waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(files_in_folder(), 1);
    char old[8];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, old, sizeof(old)), 3);
    assert_memory_equal(old, "old", 3);
    close(fd);
    unlink(path);
}

static void a_file_is_replaced_whole(void **state)
{
    (void)state;
    char path[512], link_path[512];
    snprintf(path, sizeof(path), "%s", in_folder("e.npy"));
    snprintf(link_path, sizeof(link_path), "%s", in_folder("link.npy"));
    put_file(path, "old", 3);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(symlink("e.npy", link_path), 0);
    /* A reader that has the old file open keeps it. */
    int old = open(path, O_RDONLY | O_CLOEXEC);
    char error[256] = "", byte[4];
    if (!npy_write(link_path, &two_by_two, four, error, sizeof(error))) {
        fail_msg("%s", error);
    }
    assert_int_equal(read(old, byte, sizeof(byte)), 3);
    close(old);
    struct stat st;
    assert_int_equal(lstat(link_path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(st.st_size, 128 + 32);
    assert_int_equal(files_in_folder(), 2);
    unlink(link_path);
    unlink(path);
}

/* Temporaries of a process that was killed are passed over, and a new file obeys the umask. */
static void leftovers_do_not_disturb(void **state)
{
    (void)state;
    char left[64], left_path[512], path[512];
    snprintf(left, sizeof(left), ".npy-%ld-0.tmp", (long)getpid());
    snprintf(left_path, sizeof(left_path), "%s", in_folder(left));
    snprintf(path, sizeof(path), "%s", in_folder("f.npy"));
    put_file(left_path, "", 0);
    mode_t old = umask(027);
    assert_true(npy_write(path, &two_by_two, four, NULL, 0));
    umask(old);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(files_in_folder(), 2);
    unlink(left_path);
    unlink(path);
}

static void a_bare_name_goes_to_the_working_folder(void **state)
{
    (void)state;
    int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(here >= 0);
    assert_int_equal(chdir(folder), 0);
    bool ok = npy_write("g.npy", &two_by_two, four, NULL, 0);
    assert_int_equal(fchdir(here), 0);
    close(here);
    assert_true(ok);
    assert_int_equal(files_in_folder(), 1);
    assert_int_equal(unlink(in_folder("g.npy")), 0);
}

static int make_folder(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%s/npy-test-XXXXXX", base != NULL ? base : "/tmp");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepted_dtypes),
        cmocka_unit_test(accepted_vectors),
        cmocka_unit_test(accepted_orders_and_shapes),
        cmocka_unit_test(accepted_spellings),
        cmocka_unit_test(files_that_are_too_short),
        cmocka_unit_test(files_that_are_too_long),
        cmocka_unit_test(what_is_not_npy),
        cmocka_unit_test(huge_header_lengths),
        cmocka_unit_test(longest_header),
        cmocka_unit_test(refused_dtypes),
        cmocka_unit_test(refused_shapes),
        cmocka_unit_test(malformed_dicts),
        cmocka_unit_test(error_text_fits_any_size),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(arrays_are_read_back),
        cmocka_unit_test(refused_arrays),
        cmocka_unit_test(the_header_is_numpys),
        cmocka_unit_test(read_errors),
        cmocka_unit_test(write_refusals),
        cmocka_unit_test(a_failed_write_changes_nothing),
        cmocka_unit_test(a_file_is_replaced_whole),
        cmocka_unit_test(leftovers_do_not_disturb),
        cmocka_unit_test(a_bare_name_goes_to_the_working_folder),
    };
    return cmocka_run_group_tests_name("npy", tests, make_folder, remove_folder);
}
