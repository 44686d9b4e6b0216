/* Headers of .npy files, piece by piece. The sources are included; unit/io/io has the files. */
#define _GNU_SOURCE
#include "support/unit.h"

#include "../../../src/io/npy_dict.c"
#include "../../../src/io/npy_header.c"
#include "support/label.h"

TROUPE_TEST("no tsan");

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
static bool parse(const unsigned char *bytes, size_t len, uint64_t file_size, trp__npy *info,
                  trp_error *error)
{
    unsigned char *copy = malloc(len == 0 ? 1 : len);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    bool ok = trp__npy_parse(copy, len, file_size, info, error);
    free(copy);
    return ok;
}

static void refuse_bytes(const unsigned char *bytes, size_t len, uint64_t file_size,
                         const char *message)
{
    trp_error error = {0};
    trp__npy info = {.rank = 77};
    if (parse(bytes, len, file_size, &info, &error)) {
        fail_msg("accepted, expected: %s", message);
    }
    assert_string_equal(error.message, message);
    assert_true(error.status == TRP_E_ARGUMENT || error.status == TRP_E_UNSUPPORTED);
    assert_true(info.rank == 77);
}

static void refuse_dict(const char *dict_text, const char *message)
{
    for (unsigned major = 1; major <= 3; major++) {
        image f = make(major, dict_text, 0);
        refuse_bytes(f.bytes, f.len, f.len, message);
    }
}

static trp__npy accept_dict(const char *dict_text, uint64_t data_bytes)
{
    trp__npy info = {0};
    for (unsigned major = 1; major <= 3; major++) {
        trp_error error = {0};
        image f = make(major, dict_text, 0);
        if (!parse(f.bytes, f.len, f.len + data_bytes, &info, &error)) {
            fail_msg("refused %s: %s", dict_text, error.message);
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
        trp_dtype type;
    } cases[] = {
        {DICT("'<f2'", "False", "(3, 4)"), TRP_F16},  {DICT("'=f2'", "False", "(3, 4)"), TRP_F16},
        {DICT("'<f4'", "False", "(3, 4)"), TRP_F32},  {DICT("'=f4'", "False", "(3, 4)"), TRP_F32},
        {DICT("'<f8'", "False", "(3, 4)"), TRP_F64},  {DICT("'=f8'", "False", "(3, 4)"), TRP_F64},
        {DICT("'<c8'", "False", "(3, 4)"), TRP_C64},  {DICT("'=c16'", "False", "(3, 4)"), TRP_C128},
        {DICT("'<c16'", "True", "(3, 4)"), TRP_C128}, {DICT("'<i4'", "False", "(3, 4)"), TRP_I32},
        {DICT("'=i8'", "False", "(3, 4)"), TRP_I64},  {DICT("'|i1'", "False", "(3, 4)"), TRP_I8},
        {DICT("'|u1'", "False", "(3, 4)"), TRP_U8},   {DICT("'|b1'", "False", "(3, 4)"), TRP_BOOL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        trp__npy info = accept_dict(cases[i].dict_text, 12 * trp_dtype_bits(cases[i].type) / 8);
        assert_int_equal(info.type->type, cases[i].type);
        assert_true(info.rank == 2 && info.dim[0] == 3 && info.dim[1] == 4);
    }
}

static void accepted_vectors(void **state)
{
    (void)state;
    trp__npy info = accept_dict(DICT("'<f4'", "False", "(12,)"), 48);
    assert_true(info.rank == 1 && info.dim[0] == 12);
    info = accept_dict(DICT("'<f8'", "True", "(0,)"), 0);
    assert_true(info.rank == 1 && info.dim[0] == 0);
    refuse_dict(DICT("'<f4'", "False", "(12,)"), "truncated data: shape (12,) of 4-byte elements "
                                                 "is 48 bytes, the file has 0 after its header");
}

static void accepted_orders_and_shapes(void **state)
{
    (void)state;
    trp__npy info = accept_dict(DICT("'<f4'", "False", "(3, 5)"), 60);
    assert_true(info.dim[0] == 3 && info.dim[1] == 5 && !info.fortran_order);
    info = accept_dict(DICT("'<f4'", "True", "(3, 5)"), 60);
    assert_true(info.dim[0] == 3 && info.dim[1] == 5 && info.fortran_order);
    info = accept_dict(DICT("'<f8'", "False", "(1, 1)"), 8);
    assert_true(info.dim[0] == 1 && info.dim[1] == 1);
    info = accept_dict(DICT("'<f8'", "False", "(0, 7)"), 0);
    assert_true(info.dim[0] == 0 && info.dim[1] == 7);
    info = accept_dict(DICT("'<f8'", "True", "(7, 0)"), 0);
    assert_true(info.dim[0] == 7 && info.dim[1] == 0);
    accept_dict(DICT("'<f8'", "False", "(0, 0)"), 0);
    info = accept_dict(DICT("'<f8'", "False", "(0, 9223372036854775807)"), 0);
    assert_true(info.dim[1] == INT64_MAX);
    info = accept_dict(DICT("'<f4'", "False", "(2147483648, 1073741823)"),
                       (UINT64_C(1) << 33) * 1073741823);
    assert_true(info.dim[0] == INT64_C(1) << 31);
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
    trp__npy info;
    assert_true(parse(f.bytes, f.len, f.len + 24, &info, NULL));
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
            trp__npy info;
            assert_false(parse(f.bytes, len, len, &info, NULL));
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
    const size_t len = TRP__NPY_PREAMBLE_V2 + TRP__NPY_HEADER_LIMIT;
    unsigned char *bytes = malloc(len);
    assert_non_null(bytes);
    memset(bytes, ' ', len);
    image f = make(3, DICT("'<f4'", "False", "(3, 4)"), 0);
    memcpy(bytes, f.bytes, f.len);
    memcpy(bytes + 8, "\x00\x00\x10\x00", 4);
    trp__npy info;
    assert_true(parse(bytes, len, len + 48, &info, NULL));
    assert_true(info.data_offset == len);
    /* And one that is digits to its end. */
    memset(bytes + TRP__NPY_PREAMBLE_V2, '1', TRP__NPY_HEADER_LIMIT);
    memcpy(bytes + TRP__NPY_PREAMBLE_V2, "{'shape':(", 10);
    assert_false(parse(bytes, len, len, &info, NULL));
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
        {DICT("'>i2'", "False", "(3, 4)"), "integer dtype '>i2': " NPY_DTYPES},
        {DICT("'<u4'", "False", "(3, 4)"), "unsigned integer dtype '<u4': " NPY_DTYPES},
        {DICT("'>u1'", "False", "(3, 4)"), "unsigned integer dtype '>u1': " NPY_DTYPES},
        {DICT("'|b2'", "False", "(3, 4)"), "boolean dtype '|b2': " NPY_DTYPES},
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
        {DICT("[('x', '<f4'), ('y', '<f4')]", "False", "(3,)"),
         "structured dtype: expected elements of one type"},
        {DICT("('<f4', (2,))", "False", "(3,)"),
         "bad header: expected a string for 'descr' at byte 10, got ("},
        {DICT("None", "False", "(3, 4)"),
         "bad header: expected a string for 'descr' at byte 10, got None"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        refuse_dict(cases[i].dict_text, cases[i].message);
    }
}

static void refused_shapes(void **state)
{
    (void)state;
    const struct {
        const char *dict_text, *message;
    } cases[] = {
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
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa..."},
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

static void ranks(void **state)
{
    (void)state;
    char text[512] = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
    trp__npy info = accept_dict(DICT("'<f8'", "False", "()"), 8);
    assert_int_equal(info.rank, 0);
    for (int i = 0; i < TRP_IO_RANK_MAX; i++)
        strcat(text, i % 2 ? "1, " : "2, ");
    const size_t end = strlen(text);
    strcat(text, ")}");
    info = accept_dict(text, 4 << TRP_IO_RANK_MAX / 2);
    assert_int_equal(info.rank, TRP_IO_RANK_MAX);
    strcpy(text + end, "1)}");
    image f = make(1, text, 0);
    trp_error error;
    assert_false(parse(f.bytes, f.len, f.len, &info, &error));
    assert_int_equal(error.status, TRP_E_UNSUPPORTED);
    assert_non_null(strstr(error.message, "33-D array of shape (2, 1, "));
    assert_non_null(strstr(error.message, "expected at most 32 dimensions"));
    /* No dimension counts beside one that is 0. */
    info = accept_dict(DICT("'<f8'", "True", "(9223372036854775807, 9223372036854775807, 0)"), 0);
    assert_int_equal(info.rank, 3);
}

/* The bytes that numpy.save (2.x) writes for these. */
static void the_header_is_numpys(void **state)
{
    (void)state;
    trp__npy array = {
        .type = trp__io_type_of(TRP_F32), .rank = 2, .dim = {3, 4}, .fortran_order = true};
    trp__npy_bytes header = trp__npy_format(&array);
    assert_int_equal(header.len, 128);
    const char *expected = "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': True, "
                           "'shape': (3, 4), }";
    const size_t text_len = 10 + 58;
    assert_memory_equal(header.bytes, expected, text_len);
    for (size_t i = text_len; i < 127; i++) {
        assert_int_equal(header.bytes[i], ' ');
    }
    assert_int_equal(header.bytes[127], '\n');
    array = (trp__npy){.type = trp__io_type_of(TRP_I8), .rank = 1, .dim = {12}};
    header = trp__npy_format(&array);
    assert_int_equal(header.len, 128);
    expected = "\x93NUMPY\x01\x00v\x00{'descr': '|i1', 'fortran_order': False, "
               "'shape': (12,), }  ";
    assert_memory_equal(header.bytes, expected, 10 + 58);
    array = (trp__npy){.type = trp__io_type_of(TRP_BOOL)};
    header = trp__npy_format(&array);
    assert_int_equal(header.len, 128);
    expected = "\x93NUMPY\x01\x00v\x00{'descr': '|b1', 'fortran_order': False, 'shape': (), }   ";
    assert_memory_equal(header.bytes, expected, 10 + 58);
    /* The longest one. */
    array = (trp__npy){.type = trp__io_type_of(TRP_C128), .rank = TRP_IO_RANK_MAX};
    for (int i = 1; i < TRP_IO_RANK_MAX; i++)
        array.dim[i] = INT64_MAX;
    header = trp__npy_format(&array);
    assert_int_equal(header.len % 64, 0);
    trp__npy back;
    assert_true(parse(header.bytes, header.len, header.len, &back, NULL));
    assert_memory_equal(back.dim, array.dim, sizeof(array.dim));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(accepted_dtypes),
        UNIT(accepted_vectors),
        UNIT(accepted_orders_and_shapes),
        UNIT(accepted_spellings),
        UNIT(files_that_are_too_short),
        UNIT(files_that_are_too_long),
        UNIT(what_is_not_npy),
        UNIT(huge_header_lengths),
        UNIT(longest_header),
        UNIT(refused_dtypes),
        UNIT(refused_shapes),
        UNIT(malformed_dicts),
        UNIT(ranks),
        UNIT(the_header_is_numpys),
    };
    return cmocka_run_group_tests_name("npy", tests, NULL, NULL);
}
