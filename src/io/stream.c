/* Reads a member of a ZIP archive as a stream: stored, or inflated by zlib, which is loaded when it
 * is first needed. */
#include "base/os/dynlib.h"

#include "io/file.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The interface of zlib, stable since 1.0 (zlib.h, z_stream). inflateInit2_() gets the size of the
 * struct, and refuses any other than its own. */
typedef struct z_stream {
    const unsigned char *next_in;
    unsigned avail_in;
    unsigned long total_in;
    unsigned char *next_out;
    unsigned avail_out;
    unsigned long total_out;
    const char *msg;
    void *state;
    void *(*zalloc)(void *, unsigned, unsigned);
    void (*zfree)(void *, void *);
    void *opaque;
    int data_type;
    unsigned long adler, reserved;
} z_stream;

enum { Z_OK = 0, Z_STREAM_END = 1, Z_BUF_ERROR = -5, Z_MEM_ERROR = -4, RAW_DEFLATE = -15 };

typedef struct zlib {
    int (*inflateInit2_)(z_stream *, int, const char *, int);
    int (*inflate)(z_stream *, int);
    int (*inflateEnd)(z_stream *);
} zlib;

enum { PACKED_BUFFER = 1 << 16 };

struct trp__io_stream {
    const trp_io_file *file;
    trp__io_member member;
    uint64_t packed_read, unpacked_read;
    uint32_t crc;
    const zlib *zlib; /* NULL: stored */
    z_stream z;
    bool ended;
    unsigned char packed[PACKED_BUFFER];
};

static trp__dynlib library;

static trp_status load_zlib(const zlib **out, trp_error *error)
{
    static zlib functions;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const char *const sonames[] = {"libz.so.1", NULL};
    static const trp__dynlib_spec spec = {.name = "zlib",
                                          .sonames = sonames,
                                          .env = "TROUPE_ZLIB",
                                          .package_hint = "install zlib1g, for deflated .npz"};
    static const trp__dynlib_symbol symbols[] = {
        {"inflateInit2_", offsetof(zlib, inflateInit2_), true},
        {"inflate", offsetof(zlib, inflate), true},
        {"inflateEnd", offsetof(zlib, inflateEnd), true},
    };
    char message[sizeof error->message];
    pthread_mutex_lock(&lock);
    const bool loaded = library.handle ||
                        trp__dynlib_open(&library, &spec, symbols, sizeof symbols / sizeof *symbols,
                                         &functions, message, sizeof message);
    pthread_mutex_unlock(&lock);
    *out = &functions;
    return loaded ? TRP_OK : trp__error_set(error, TRP_E_MISSING, "%s", message);
}

trp_status trp__io_zlib(const char **path, trp_error *error)
{
    const zlib *functions;
    const trp_status status = load_zlib(&functions, error);
    *path = library.path;
    return status;
}

trp_status trp__io_stream_open(const trp_io_file *file, const trp__io_member *member,
                               trp__io_stream **out, trp_error *error)
{
    trp__io_stream *s = calloc(1, sizeof *s);
    *out = s;
    if (!s)
        return trp__error_set(error, TRP_E_MEMORY, "out of memory");
    s->file = file;
    s->member = *member;
    if (member->method == TRP__IO_STORED)
        return TRP_OK;
    trp_status status = load_zlib(&s->zlib, error);
    if (status != TRP_OK) {
        s->zlib = NULL;
        return status;
    }
    const int code = s->zlib->inflateInit2_(&s->z, RAW_DEFLATE, "1", (int)sizeof s->z);
    if (code == Z_OK)
        return TRP_OK;
    s->zlib = NULL;
    return trp__error_set_code(error, code == Z_MEM_ERROR ? TRP_E_MEMORY : TRP_E_LIBRARY, "zlib",
                               code, "zlib: inflateInit2 failed with %d", code);
}

void trp__io_stream_close(trp__io_stream *s)
{
    if (s && s->zlib)
        s->zlib->inflateEnd(&s->z);
    free(s);
}

/* Reads up to `room` bytes; *got is 0 at the end. */
static trp_status read_packed(trp__io_stream *s, void *target, uint64_t room, uint64_t *got,
                              trp_error *error)
{
    const uint64_t left = s->member.packed - s->packed_read;
    *got = left < room ? left : room;
    trp_status status =
        trp__io_pread(s->file->fd, s->member.begin + s->packed_read, target, *got, "array", error);
    s->packed_read += *got;
    return status;
}

/* Fills `target`; *got is less than `bytes` only at the end of the member. */
static trp_status inflate_some(trp__io_stream *s, void *target, unsigned bytes, uint64_t *got,
                               trp_error *error)
{
    s->z.next_out = target;
    s->z.avail_out = bytes;
    while (s->z.avail_out > 0 && !s->ended) {
        uint64_t more = 1;
        if (s->z.avail_in == 0) {
            trp_status status = read_packed(s, s->packed, PACKED_BUFFER, &more, error);
            if (status != TRP_OK)
                return status;
            s->z.next_in = s->packed;
            s->z.avail_in = (unsigned)more;
        }
        const int code = s->zlib->inflate(&s->z, 0);
        s->ended = code == Z_STREAM_END;
        if (code == Z_MEM_ERROR)
            return trp__error_set(error, TRP_E_MEMORY, "zlib: out of memory");
        if ((code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) ||
            (more == 0 && code == Z_BUF_ERROR))
            return trp__error_set(
                error, TRP_E_ARGUMENT, "damaged data: zlib could not inflate them (%s)",
                s->z.msg ? trp__io_quote_name(s->z.msg).text : "they end too soon");
    }
    *got = bytes - s->z.avail_out;
    return TRP_OK;
}

static trp_status read_some(trp__io_stream *s, void *target, uint64_t bytes, uint64_t *got,
                            trp_error *error)
{
    if (!s->zlib)
        return read_packed(s, target, bytes, got, error);
    return inflate_some(s, target, bytes < (1u << 30) ? (unsigned)bytes : 1u << 30, got, error);
}

/* Checks, after all bytes have been read, that none follow and that the checksum is right. */
static trp_status check_end(trp__io_stream *s, trp_error *error)
{
    unsigned char more;
    uint64_t got = 0;
    if (s->zlib) {
        trp_status status = inflate_some(s, &more, 1, &got, error);
        if (status != TRP_OK)
            return status;
    }
    if (got != 0)
        return trp__error_set(error, TRP_E_ARGUMENT,
                              "damaged data: more than the %" PRIu64 " bytes of the directory",
                              s->member.unpacked);
    if (s->crc != s->member.crc)
        return trp__error_set(error, TRP_E_ARGUMENT,
                              "damaged data: expected the checksum %08" PRIx32 ", got %08" PRIx32,
                              s->member.crc, s->crc);
    return TRP_OK;
}

trp_status trp__io_stream_read(trp__io_stream *s, void *target, uint64_t bytes, trp_error *error)
{
    if (bytes > s->member.unpacked - s->unpacked_read)
        return trp__error_set(error, TRP_E_ARGUMENT,
                              "truncated data: expected %" PRIu64
                              " bytes, the archive has %" PRIu64,
                              s->unpacked_read + bytes, s->member.unpacked);
    for (uint64_t done = 0, got = 0; done < bytes; done += got) {
        trp_status status = read_some(s, (char *)target + done, bytes - done, &got, error);
        if (status != TRP_OK)
            return status;
        if (got == 0)
            return trp__error_set(error, TRP_E_ARGUMENT,
                                  "truncated data: expected %" PRIu64 " bytes, got %" PRIu64,
                                  s->unpacked_read + bytes, s->unpacked_read + done);
        s->crc = trp__io_crc(s->crc, (char *)target + done, (size_t)got);
    }
    s->unpacked_read += bytes;
    return bytes > 0 && s->unpacked_read == s->member.unpacked ? check_end(s, error) : TRP_OK;
}
