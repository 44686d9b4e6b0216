/* Writers of the three formats: .npy, .npz (a ZIP archive of .npy files), safetensors. */
#include "base/bytes.h"

#include "io/npy.h"
#include "io/save.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* .npy. */

/* A vector is in C and Fortran order at once; NumPy writes C order. */
static trp__npy_bytes npy_header(const trp__io_out *out)
{
    const trp_io_array *a = &out->item->array;
    trp__npy array = {
        .type = out->type, .rank = a->rank, .fortran_order = a->fortran_order && a->rank > 1};
    memcpy(array.dim, a->dim, a->rank * sizeof *a->dim);
    return trp__npy_format(&array);
}

trp_status trp__io_save_npy(trp__io_saver *s, trp_error *error)
{
    const trp__npy_bytes header = npy_header(s->out);
    trp_status status = trp__io_put(s, header.bytes, header.len, error);
    return status == TRP_OK ? trp__io_put_elements(s, s->out, error) : status;
}

/* .npz. Members are stored; fields of ZIP64 are written only for values that need them. */

enum {
    VERSION = 20,
    VERSION64 = 45,
    MADE_BY_UNIX = 3 << 8,
    FLAG_UTF8 = 1 << 11,
    DATE = 1 << 5 | 1, /* 1980-01-01, so that the same content makes the same file */
    MODE = 0600,
    CRC_AT = 14, /* offset in the local header */
};

typedef struct member {
    uint64_t header, bytes;
    uint32_t crc;
} member;

static void put16(unsigned char *at, uint32_t value)
{
    at[0] = (unsigned char)value;
    at[1] = (unsigned char)(value >> 8);
}

static uint32_t small(uint64_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

/* Fills the 26 bytes that local and central header have in common, from the version on. */
static void put_common(unsigned char *at, const trp__io_out *out, const member *m, size_t extra)
{
    const char *name = out->item->array.name;
    bool ascii = true;
    for (const char *c = name; *c; c++)
        ascii = ascii && (unsigned char)*c < 0x80;
    put16(at, extra > 0 ? VERSION64 : VERSION);
    put16(at + 2, ascii ? 0 : FLAG_UTF8);
    put16(at + 4, TRP__IO_STORED);
    put16(at + 6, 0);
    put16(at + 8, DATE);
    trp__put32(at + 10, m->crc);
    trp__put32(at + 14, small(m->bytes));
    trp__put32(at + 18, small(m->bytes));
    put16(at + 22, (uint32_t)(strlen(name) + 4));
    put16(at + 24, (uint32_t)extra);
}

static trp_status put_name(trp__io_saver *s, const trp__io_out *out, trp_error *error)
{
    const char *name = out->item->array.name;
    trp_status status = trp__io_put(s, name, strlen(name), error);
    return status == TRP_OK ? trp__io_put(s, ".npy", 4, error) : status;
}

static trp_status put_member(trp__io_saver *s, const trp__io_out *out, member *m, trp_error *error)
{
    const trp__npy_bytes header = npy_header(out);
    unsigned char local[TRP__ZIP_LOCAL] = "PK\3\4", extra[20] = {1, 0, 16, 0}, crc[4];
    *m = (member){.header = s->written, .bytes = header.len + out->bytes};
    const size_t more = m->bytes >= UINT32_MAX ? sizeof extra : 0;
    put_common(local + 4, out, m, more);
    trp__put64(extra + 4, m->bytes);
    trp__put64(extra + 12, m->bytes);
    trp_status status = trp__io_put(s, local, sizeof local, error);
    if (status == TRP_OK)
        status = put_name(s, out, error);
    if (status == TRP_OK)
        status = trp__io_put(s, extra, more, error);
    s->crc = 0;
    if (status == TRP_OK)
        status = trp__io_put(s, header.bytes, header.len, error);
    if (status == TRP_OK)
        status = trp__io_put_elements(s, out, error);
    m->crc = s->crc;
    trp__put32(crc, m->crc);
    if (status == TRP_OK &&
        pwrite(s->file.fd, crc, sizeof crc, (off_t)(m->header + CRC_AT)) != (ssize_t)sizeof crc)
        status = trp__io_errno(error, NULL);
    return status;
}

static trp_status put_central(trp__io_saver *s, const trp__io_out *out, const member *m,
                              trp_error *error)
{
    unsigned char central[TRP__ZIP_CENTRAL] = "PK\1\2", extra[28] = {1, 0};
    size_t more = 0;
    if (m->bytes >= UINT32_MAX) {
        trp__put64(extra + 4, m->bytes);
        trp__put64(extra + 12, m->bytes);
        more = 16;
    }
    if (m->header >= UINT32_MAX) {
        trp__put64(extra + 4 + more, m->header);
        more += 8;
    }
    put16(extra + 2, (uint32_t)more);
    more += more > 0 ? 4 : 0;
    put16(central + 4, MADE_BY_UNIX | VERSION64);
    put_common(central + 6, out, m, more);
    trp__put32(central + 38, (uint32_t)MODE << 16);
    trp__put32(central + 42, small(m->header));
    trp_status status = trp__io_put(s, central, sizeof central, error);
    if (status == TRP_OK)
        status = put_name(s, out, error);
    return status == TRP_OK ? trp__io_put(s, extra, more, error) : status;
}

static trp_status put_end(trp__io_saver *s, uint64_t directory, trp_error *error)
{
    const uint64_t bytes = s->written - directory, end64 = s->written;
    unsigned char record[TRP__ZIP_END64] = "PK\6\6", locator[TRP__ZIP_LOCATOR] = "PK\6\7";
    unsigned char end[TRP__ZIP_END] = "PK\5\6";
    const bool large = s->count >= UINT16_MAX || bytes >= UINT32_MAX || directory >= UINT32_MAX;
    trp__put64(record + 4, TRP__ZIP_END64 - 12);
    put16(record + 12, MADE_BY_UNIX | VERSION64);
    put16(record + 14, VERSION64);
    trp__put64(record + 24, s->count);
    trp__put64(record + 32, s->count);
    trp__put64(record + 40, bytes);
    trp__put64(record + 48, directory);
    trp__put64(locator + 8, end64);
    trp__put32(locator + 16, 1);
    put16(end + 8, s->count < UINT16_MAX ? (uint32_t)s->count : UINT16_MAX);
    put16(end + 10, s->count < UINT16_MAX ? (uint32_t)s->count : UINT16_MAX);
    trp__put32(end + 12, small(bytes));
    trp__put32(end + 16, small(directory));
    trp_status status = large ? trp__io_put(s, record, sizeof record, error) : TRP_OK;
    if (status == TRP_OK && large)
        status = trp__io_put(s, locator, sizeof locator, error);
    return status == TRP_OK ? trp__io_put(s, end, sizeof end, error) : status;
}

trp_status trp__io_save_npz(trp__io_saver *s, trp_error *error)
{
    member *members = malloc((size_t)(s->count + 1) * sizeof *members);
    trp_status status = TRP_OK;
    if (!members)
        return trp__error_set(error, TRP_E_MEMORY, "out of memory");
    for (uint64_t i = 0; status == TRP_OK && i < s->count; i++)
        status = put_member(s, &s->out[i], &members[i], error);
    const uint64_t directory = s->written;
    for (uint64_t i = 0; status == TRP_OK && i < s->count; i++)
        status = put_central(s, &s->out[i], &members[i], error);
    free(members);
    return status == TRP_OK ? put_end(s, directory, error) : status;
}

/* safetensors. */

/* Prints a string of JSON. */
static void print_string(FILE *f, const char *text)
{
    fputc('"', f);
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c < 0x20) {
            fprintf(f, "\\u%04x", (unsigned)*c);
            continue;
        }
        if (*c == '"' || *c == '\\')
            fputc('\\', f);
        fputc(*c, f);
    }
    fputc('"', f);
}

static void print_tensor(FILE *f, const trp__io_out *out, uint64_t at)
{
    const trp_io_array *a = &out->item->array;
    print_string(f, a->name);
    fprintf(f, ":{\"dtype\":\"%s\",\"shape\":[", out->type->safetensors);
    for (uint32_t i = 0; i < a->rank; i++)
        fprintf(f, "%s%" PRId64, i > 0 ? "," : "", a->dim[i]);
    fprintf(f, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + out->bytes);
}

static void print_header(FILE *f, const trp__io_saver *s)
{
    const trp_io_save_options *o = s->options;
    uint64_t at = 0;
    fputc('{', f);
    for (uint64_t i = 0; i < o->metadata_count; i++) {
        fputs(i == 0 ? "\"__metadata__\":{" : ",", f);
        print_string(f, o->metadata[i].key);
        fputc(':', f);
        print_string(f, o->metadata[i].value);
    }
    fputs(o->metadata_count > 0 ? "}" : "", f);
    for (uint64_t i = 0; i < s->count; i++) {
        if (i > 0 || o->metadata_count > 0)
            fputc(',', f);
        print_tensor(f, &s->out[i], at);
        at += s->out[i].bytes;
    }
    fputc('}', f);
    while (!ferror(f) && ftell(f) % 8 != 0) /* aligns the elements */
        fputc(' ', f);
}

static int larger_first(const void *a, const void *b)
{
    const trp__io_out *x = a, *y = b;
    if (x->type->bits != y->type->bits)
        return x->type->bits > y->type->bits ? -1 : 1;
    return (x->item > y->item) - (x->item < y->item);
}

trp_status trp__io_save_safetensors(trp__io_saver *s, trp_error *error)
{
    unsigned char length[8];
    char *text = NULL;
    size_t bytes = 0;
    qsort(s->out, (size_t)s->count, sizeof *s->out, larger_first);
    FILE *f = open_memstream(&text, &bytes);
    if (f)
        print_header(f, s);
    if (!f || ferror(f) || fclose(f) != 0) {
        free(text);
        return trp__error_set(error, TRP_E_MEMORY, "out of memory");
    }
    trp__put64(length, bytes);
    trp_status status =
        bytes > TRP__IO_SAFETENSORS_LIMIT
            ? trp__error_set(error, TRP_E_UNSUPPORTED,
                             "names, shapes and metadata take a header of %zu bytes: readers of "
                             "safetensors accept %d",
                             bytes, TRP__IO_SAFETENSORS_LIMIT)
            : trp__io_put(s, length, sizeof length, error);
    if (status == TRP_OK)
        status = trp__io_put(s, text, bytes, error);
    free(text);
    for (uint64_t i = 0; status == TRP_OK && i < s->count; i++)
        status = trp__io_put_elements(s, &s->out[i], error);
    return status;
}
