/* An open file of arrays, and the declarations shared by the parts of io/: formats (npy.h,
 * safetensors.c, zip.c), reading (file.c, stream.c), loading (load.c), saving (save.c, replace.c).
 */
#ifndef TRP_IO_FILE_H
#define TRP_IO_FILE_H

#include "base/error.h"

#include <troupe/io.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are passed on as they are");

/* Element types: one row for each type of any format. */

typedef struct trp__io_type {
    trp_dtype type;          /* TRP_DTYPE_NONE: Troupe has no such type */
    uint32_t bits;           /* of an element */
    const char *npy;         /* kind and size, "f4"; NULL: .npy lacks it */
    const char *safetensors; /* "F32"; NULL: safetensors lacks it */
} trp__io_type;

extern const trp__io_type trp__io_types[];
extern const size_t trp__io_type_count;

/* Returns the row of a type; NULL for TRP_DTYPE_NONE and for a number that is no type. */
const trp__io_type *trp__io_type_of(trp_dtype type);

/* Computes the bytes of an array. Returns false if they do not fit in 63 bits, or if elements of
 * less than a byte do not fill the last byte. If any dimension is 0, the result is 0. */
bool trp__io_count_bytes(const int64_t *dim, uint32_t rank, uint32_t bits, uint64_t *bytes);

/* Messages. */

/* Text from a file for use in a message: other than printable characters are escaped, and long text
 * is shortened. */
typedef struct trp__io_quoted {
    char text[64];
} trp__io_quoted;
trp__io_quoted trp__io_quote(const void *bytes, size_t length);
trp__io_quoted trp__io_quote_name(const char *name);

/* Returns whether a string is well-formed UTF-8 (Unicode 15, table 3-7). */
bool trp__io_is_utf8(const char *text);

/* Returns the number of bytes of the first character of a terminated text, 0 if it is malformed. */
size_t trp__io_utf8_length(const char *text);

/* Puts "PATH: " before a message; a long path is shortened to its end. Returns the status. */
trp_status trp__io_prefix(trp_error *error, const char *path);

/* Sets an error from errno: TRP_E_MISSING for ENOENT, TRP_E_MEMORY for ENOMEM, otherwise
 * TRP_E_SYSTEM. The message is "DOING: STRERROR", or "STRERROR" if `doing` is NULL. */
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
    uint64_t header;           /* offset of its local header */
    uint64_t begin;            /* offset of its bytes */
    uint64_t packed, unpacked; /* bytes in the file, and when unpacked */
    uint32_t crc;
    uint16_t method; /* TRP__IO_STORED, TRP__IO_DEFLATED */
} trp__io_member;

enum { TRP__IO_STORED = 0, TRP__IO_DEFLATED = 8 };

typedef struct trp__io_entry {
    const char *name;         /* in the text of the file, or owned (.npz) */
    const trp__io_type *type; /* NULL: it can't be read, for the reason in `refusal` */
    char *refusal;            /* owned */
    char file_type[24];
    uint32_t rank;
    size_t dims; /* index of its first dimension in `dim` of the file */
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
    char *text;        /* the header of safetensors, whose strings have been terminated in place */
    trp__io_text_pair *metadata;
    uint64_t metadata_count, metadata_room;
};

/* Adds a zeroed entry; NULL: out of memory. Adding another one may move it. */
trp__io_entry *trp__io_add_entry(trp_io_file *file);

/* Adds a dimension to an entry; only the entry whose dimensions were added last can get more. */
bool trp__io_add_dim(trp_io_file *file, trp__io_entry *entry, int64_t dim);

/* Makes room for count + 1 elements in an array, by doubling it; false: out of memory. */
bool trp__io_grow(void **array, uint64_t count, uint64_t *room, size_t size);

/* Returns whether all reserved fields are 0. */
bool trp__io_is_zero(const uint64_t reserved[4]);

/* The indices of all entries, sorted by qsort_r() with `compare` and the file; NULL: out of memory.
 * The caller frees them. */
uint64_t *trp__io_order(trp_io_file *file,
                        int (*compare)(const void *a, const void *b, void *file));

/* Fills `by_name`; fails if two entries have the same name. Messages call an entry `what`: "tensor"
 * or "array". */
trp_status trp__io_sort_names(trp_io_file *file, const char *what, trp_error *error);

/* Reads `bytes` bytes at `offset`. TRP_E_ARGUMENT: the file ends before. Messages call the bytes
 * `what`. */
trp_status trp__io_pread(int fd, uint64_t offset, void *target, uint64_t bytes, const char *what,
                         trp_error *error);

/* Each reads everything but the elements from a file of its format, and adds the entries. */
trp_status trp__io_open_npy(trp_io_file *file, trp_error *error);
trp_status trp__io_open_npz(trp_io_file *file, trp_error *error);
trp_status trp__io_open_safetensors(trp_io_file *file, trp_error *error);

/* Parses the header of safetensors without reading a file. `text` has room for `length` bytes of
 * JSON and a terminating zero; its strings are terminated in place. The elements are `data_bytes`
 * bytes at offset `data_begin` of the file. */
trp_status trp__io_parse_safetensors(trp_io_file *file, char *text, size_t length,
                                     uint64_t data_begin, uint64_t data_bytes, trp_error *error);

/* Frees everything that a file owns; neither the struct nor the descriptor. */
void trp__io_forget(trp_io_file *file);

/* Streams: the bytes of a member of an archive, in order. */

/* Loads zlib, which deflated members need, and returns the path of the library. TRP_E_MISSING: it
 * is not installed; the message names the package. */
trp_status trp__io_zlib(const char **path, trp_error *error);

typedef struct trp__io_stream trp__io_stream;

trp_status trp__io_stream_open(const trp_io_file *file, const trp__io_member *member,
                               trp__io_stream **out, trp_error *error);

/* Reads the next `bytes` bytes. The read that reaches the end of the member also checks its
 * checksum, and that no data follows. */
trp_status trp__io_stream_read(trp__io_stream *stream, void *target, uint64_t bytes,
                               trp_error *error);
void trp__io_stream_close(trp__io_stream *stream);

/* Continues a CRC-32 of ISO 3309, the checksum of ZIP, from `crc` (0 at first). */
uint32_t trp__io_crc(uint32_t crc, const void *data, size_t bytes);

/* Replacement of a file, which becomes visible whole or not at all. */

typedef struct trp__io_replacement {
    int fd;          /* of the temporary file, positioned at its end */
    char *path;      /* of the target, after following symbolic links */
    char *temporary; /* path of the temporary file; NULL: there is none */
    size_t folder;   /* length of `path` up to and including the last slash; 0: it has none */
} trp__io_replacement;

trp_status trp__io_replace_begin(trp__io_replacement *r, const char *path, trp_error *error);
trp_status trp__io_replace_write(trp__io_replacement *r, const void *data, uint64_t bytes,
                                 trp_error *error);
trp_status trp__io_replace_commit(trp__io_replacement *r, trp_error *error);
/* Removes the temporary file unless it was committed, and frees the paths. */
void trp__io_replace_end(trp__io_replacement *r);

/* Disables cancellation of the calling thread, which would otherwise leave a call half done.
 * Returns the old state for trp__io_cancel_restore(). */
int trp__io_cancel_disable(void);
void trp__io_cancel_restore(int state);

/* Writes one array as .npy to a descriptor that can't seek: a pipe or a socket. After an error, the
 * bytes written so far remain written. Messages call the destination `name`. Returns the errors of
 * trp_io_save(). */
trp_status trp__io_save_stream(int fd, const char *name, const trp_io_item *item,
                               const trp_io_save_options *options);

#endif
