/* An open file of arrays, and what the parts of io/ share: formats (npy.h, safetensors.c, zip.c),
 * reading (file.c, stream.c), loading (load.c), saving (save.c, replace.c). */
#ifndef TRP_IO_FILE_H
#define TRP_IO_FILE_H

#include "base/error.h"

#include <troupe/io.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are passed on as they are");

/* Types: a row for each that some format has. */

typedef struct trp__io_type {
    trp_dtype type;          /* TRP_DTYPE_NONE: trp_dtype lacks it */
    uint32_t bits;           /* of an element */
    const char *npy;         /* kind and size, "f4"; NULL: .npy lacks it */
    const char *safetensors; /* "F32"; NULL: safetensors lacks it */
} trp__io_type;

extern const trp__io_type trp__io_types[];
extern const size_t trp__io_type_count;

/* The row of a type; NULL for TRP_DTYPE_NONE and what is none. */
const trp__io_type *trp__io_type_of(trp_dtype type);

/* The bytes of so many dimensions of elements; false when they do not fit in 63 bits, or when
 * elements of less than a byte do not fill the last one. A dimension of 0 makes it 0, whatever the
 * others are. */
bool trp__io_count_bytes(const int64_t *dim, uint32_t rank, uint32_t bits, uint64_t *bytes);

/* Messages. */

/* A name or another piece of a file, made fit to be shown: printable, and shortened when long. */
typedef struct trp__io_quoted {
    char text[64];
} trp__io_quoted;
trp__io_quoted trp__io_quote(const void *bytes, size_t length);
trp__io_quoted trp__io_quote_name(const char *name);

/* Whether a string is well-formed UTF-8 (Unicode 15, table 3-7). */
bool trp__io_is_utf8(const char *text);

/* Bytes of the first character of a terminated text, 0 if it is not well-formed. */
size_t trp__io_utf8_length(const char *text);

/* Puts "PATH: " before a message; the end of a long path is shown. Returns the status. */
trp_status trp__io_prefix(trp_error *error, const char *path);

/* TRP_E_SYSTEM from errno, TRP_E_MISSING for ENOENT: "doing: strerror", or that alone for NULL. */
trp_status trp__io_errno(trp_error *error, const char *doing);

/* Files. */

enum {
    TRP__IO_CALL_BYTES = 1 << 30, /* of one call: Linux moves at most 2 GiB less a page */
    TRP__IO_SAFETENSORS_LIMIT = 100 * 1000 * 1000, /* of the header: the reference's limit */
    TRP__ZIP_LOCAL = 30,                           /* sizes of the records of a ZIP archive */
    TRP__ZIP_CENTRAL = 46,
    TRP__ZIP_END = 22,
    TRP__ZIP_END64 = 56,
    TRP__ZIP_LOCATOR = 20,
};

/* A member of a ZIP archive. */
typedef struct trp__io_member {
    uint64_t header;           /* where its local header is */
    uint64_t begin;            /* where its bytes are */
    uint64_t packed, unpacked; /* bytes in the file, and of the member */
    uint32_t crc;
    uint16_t method; /* TRP__IO_STORED, TRP__IO_DEFLATED */
} trp__io_member;

enum { TRP__IO_STORED = 0, TRP__IO_DEFLATED = 8 };

typedef struct trp__io_entry {
    const char *name;         /* lies in the file's texts, or is owned (.npz) */
    const trp__io_type *type; /* NULL: it can't be read, and `refusal` says why */
    char *refusal;            /* owned */
    char file_type[24];
    uint32_t rank;
    size_t dims; /* where its dimensions begin in the file's */
    bool fortran_order;
    uint64_t offset; /* of the elements, in the file; in .npz, in the member */
    uint64_t bytes;
    trp__io_member member; /* .npz */
} trp__io_entry;

typedef struct trp__io_text_pair {
    const char *key, *value;
} trp__io_text_pair;

struct trp_io_file {
    int fd;
    char *path;
    uint64_t size;
    trp_io_format format;
    trp__io_entry *entry;
    uint64_t count, room;
    int64_t *dim;
    size_t dim_count, dim_room;
    uint64_t *by_name; /* indices, sorted by name */
    char *text;        /* the header of safetensors, with terminated strings in it */
    trp__io_text_pair *metadata;
    uint64_t metadata_count, metadata_room;
};

/* One more entry, zeroed; NULL: out of memory. It moves when the next one is added. */
trp__io_entry *trp__io_add_entry(trp_io_file *file);

/* One more dimension of an entry, whose dimensions are the last ones of the file. */
bool trp__io_add_dim(trp_io_file *file, trp__io_entry *entry, int64_t dim);

/* Makes `room` of an array at least count + 1 by doubling; false: out of memory. */
bool trp__io_grow(void **array, uint64_t count, uint64_t *room, size_t size);

/* Whether all four are 0, as reserved fields must be. */
bool trp__io_is_zero(const uint64_t reserved[4]);

/* The indices of all entries, sorted by qsort_r() with `compare` and the file; NULL: out of memory.
 * The caller frees them. */
uint64_t *trp__io_order(trp_io_file *file,
                        int (*compare)(const void *a, const void *b, void *file));

/* Sorts by name; refuses a name that comes twice. `what` is "tensor" or "array". */
trp_status trp__io_sort_names(trp_io_file *file, const char *what, trp_error *error);

/* Reads `bytes` bytes at `offset`. An early end is TRP_E_ARGUMENT. `what` is for messages. */
trp_status trp__io_pread(int fd, uint64_t offset, void *target, uint64_t bytes, const char *what,
                         trp_error *error);

/* The three readers of what is not elements. They add entries to the file. */
trp_status trp__io_open_npy(trp_io_file *file, trp_error *error);
trp_status trp__io_open_npz(trp_io_file *file, trp_error *error);
trp_status trp__io_open_safetensors(trp_io_file *file, trp_error *error);

/* The pure part of trp__io_open_safetensors(): `text` is the JSON header of `length` bytes and one
 * more, which gets a zero; strings of it are terminated in place. `data_bytes` follow it in the
 * file, from `data_begin` on. */
trp_status trp__io_parse_safetensors(trp_io_file *file, char *text, size_t length,
                                     uint64_t data_begin, uint64_t data_bytes, trp_error *error);

/* The directory of a ZIP archive, whose members *.npy become entries with a name and a member. */
trp_status trp__io_read_directory(trp_io_file *file, trp_error *error);

/* Frees all but the struct and the descriptor. */
void trp__io_forget(trp_io_file *file);

/* Members, byte after byte. */

/* Opens zlib, which deflated members need, and gives the file that it was opened from.
 * TRP_E_MISSING: it is not there; the message says what to install. */
trp_status trp__io_zlib(const char **path, trp_error *error);

typedef struct trp__io_stream trp__io_stream;

trp_status trp__io_stream_open(const trp_io_file *file, const trp__io_member *member,
                               trp__io_stream **out, trp_error *error);

/* The next `bytes` bytes. With the last byte of the member its checksum is checked, and that no
 * more comes. */
trp_status trp__io_stream_read(trp__io_stream *stream, void *target, uint64_t bytes,
                               trp_error *error);
void trp__io_stream_close(trp__io_stream *stream);

/* CRC-32 of ISO 3309, as ZIP has it, going on from `crc` (0 at first). */
uint32_t trp__io_crc(uint32_t crc, const void *data, size_t bytes);

/* A file that is written whole or not at all. Zeroed is none. */

typedef struct trp__io_replacement {
    int fd;          /* of the temporary, at its end */
    char *path;      /* of the target, symbolic links followed */
    char *temporary; /* its path; NULL: there is none */
    size_t folder;   /* length of the part of `path` up to and with the last slash; 0: none */
} trp__io_replacement;

trp_status trp__io_replace_begin(trp__io_replacement *r, const char *path, trp_error *error);
trp_status trp__io_replace_write(trp__io_replacement *r, const void *data, uint64_t bytes,
                                 trp_error *error);
trp_status trp__io_replace_commit(trp__io_replacement *r, trp_error *error);
/* Removes what was not committed, and frees all. */
void trp__io_replace_end(trp__io_replacement *r);

/* A thread that is cancelled in the middle of a call would leave it half done. Returns what
 * trp__io_cancel_restore() takes. */
int trp__io_cancel_disable(void);
void trp__io_cancel_restore(int state);

/* Writes one array as .npy to a descriptor that takes bytes in their order: a pipe, a socket.
 * Nothing is undone after an error. `name` is for messages. The errors of trp_io_save(). */
trp_status trp__io_save_stream(int fd, const char *name, const trp_io_item *item,
                               const trp_io_save_options *options);

#endif
