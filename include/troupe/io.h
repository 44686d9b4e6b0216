/* Arrays in files: NumPy's .npy and .npz, and safetensors, loaded straight into device memory and
 * saved from it.
 *
 * Layout. Elements are never converted: what a file holds is what memory gets, byte for byte,
 * little-endian. Shapes are as the file has them, the first dimension first; elements lie in C
 * order (the last dimension is the fastest), or in Fortran order where `fortran_order` says so. An
 * array of rank 0 has one element; one with a dimension of 0 has none.
 *
 * Formats that are read:
 *   .npy          versions 1.0, 2.0, 3.0; f64 f32 f16 c128 c64 i64 i32 i8 u8 bool; either order.
 *                 Big-endian elements are refused (TRP_E_UNSUPPORTED), as other dtypes are.
 *   .npz          a ZIP archive of .npy files, stored or deflated (numpy.savez and
 *                 savez_compressed), ZIP64 included. Deflated arrays need zlib (libz.so.1), which
 *                 is opened when the first of them is: TRP_E_MISSING names it. Checksums are
 *                 checked. Encrypted archives and other methods are refused.
 *   safetensors   all dtypes of the format; those that trp_dtype lacks (I16, U16, U32, U64, F6...)
 *                 are listed with TRP_DTYPE_NONE and are moved as bytes.
 * Formats that are written: the same, .npz stored; .npy and .npz have no bf16, fp8, f4, f8e8m0 or
 * i4, safetensors has no c128 and no i4 (TRP_E_UNSUPPORTED).
 *
 * Files are not trusted: every size, offset and name is checked against the file before it is used,
 * and contradictions are refused with TRP_E_ARGUMENT. Only regular files are opened. A message
 * names the file, the array, what was expected and what came.
 *
 * Any thread; one open file may be read by several threads at a time.
 *
 * Sources: numpy/lib/format.py; .ZIP File Format Specification 6.3.10; the README of
 * huggingface/safetensors ("Format").
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_IO_H
#define TROUPE_IO_H

#include <troupe/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum trp_io_format {
    TRP_IO_BY_NAME = 0, /* saving only: .npy, .npz or .safetensors, as the path ends */
    TRP_IO_NPY = 1,
    TRP_IO_NPZ = 2,
    TRP_IO_SAFETENSORS = 3,
} trp_io_format;

enum {
    TRP_IO_RANK_MAX = 32,   /* dimensions of an array */
    TRP_IO_THREADS_MAX = 64 /* of one call */
};

/* One array of a file. */
typedef struct trp_io_array {
    const char *name; /* in the file, UTF-8; of .npy "". Belongs to the file that it came from. */
    trp_dtype type;   /* TRP_DTYPE_NONE: the file has a type that trp_dtype lacks */
    uint32_t rank;
    int64_t dim[TRP_IO_RANK_MAX];
    uint64_t bytes;       /* of all elements; ignored when saving */
    bool fortran_order;   /* the first dimension is the fastest; never in safetensors */
    char file_type[24];   /* as the file calls it: "<f4", "BF16"; ignored when saving */
    uint64_t reserved[4]; /* must be 0 */
} trp_io_array;

/* A file that is open for reading. */
typedef struct trp_io_file trp_io_file;

/* Opens a file and reads all but its elements. The content decides the format, not the name.
 * Errors: TRP_E_MISSING (no such file), TRP_E_ARGUMENT (not a regular file, not one of the formats,
 * or damaged), TRP_E_UNSUPPORTED (.npy: a dtype that is not read), TRP_E_MEMORY, TRP_E_SYSTEM. */
TRP_API trp_status trp_io_open(const char *path, trp_io_file **out);

/* Closes it. Names that came from it are gone. No other thread may be in a call on it. NULL is
 * ignored. */
TRP_API void trp_io_close(trp_io_file *file);

/* The format of an open file; TRP_IO_BY_NAME for NULL. */
TRP_API trp_io_format trp_io_file_format(const trp_io_file *file);

/* How many arrays it has: 1 for .npy, the members *.npy of .npz. 0 for NULL. */
TRP_API uint64_t trp_io_count(const trp_io_file *file);

/* Describes array `index`, counted from 0 in the order of the file. An array of a .npz whose dtype
 * is not read is listed with TRP_DTYPE_NONE and rank 0; reading it says why not.
 * TRP_E_ARGUMENT: no such index. */
TRP_API trp_status trp_io_get(const trp_io_file *file, uint64_t index, trp_io_array *out);

/* The index of the array of that name (of .npz without ".npy"). TRP_E_ARGUMENT: there is none. */
TRP_API trp_status trp_io_find(const trp_io_file *file, const char *name, uint64_t *index);

/* A value of the "__metadata__" of safetensors; NULL if there is none of that key. Belongs to the
 * file. */
TRP_API const char *trp_io_metadata(const trp_io_file *file, const char *key);

/* Threads and progress of a call. NULL means all zero. */
typedef struct trp_io_options {
    uint32_t threads; /* that read, the caller's included; 0: one a processor, at most 12 */
    /* Called in the caller's thread with the bytes done so far, about every few MiB of its own
     * share, and once at the end. False stops: the call ends with TRP_E_CANCELLED. It must not use
     * the file. NULL: none. */
    bool (*progress)(void *user_data, uint64_t done, uint64_t total);
    void *user_data;
    uint64_t reserved[4]; /* must be 0 */
} trp_io_options;

/* Reads all elements of an array into host memory of `bytes` bytes, which must be what trp_io_get()
 * says. After an error the content of `target` is undefined.
 * Errors: TRP_E_ARGUMENT (index, size; the file ends early, or a checksum is wrong),
 * TRP_E_UNSUPPORTED, TRP_E_MISSING (zlib), TRP_E_CANCELLED, TRP_E_MEMORY, TRP_E_SYSTEM. */
TRP_API trp_status trp_io_read(const trp_io_file *file, uint64_t index, void *target,
                               uint64_t bytes, const trp_io_options *options);

/* Where an array goes: its first byte at `offset` bytes in `buffer`. */
typedef struct trp_io_part {
    uint64_t index; /* of the array in the file */
    trp_buffer buffer;
    uint64_t offset;
} trp_io_part;

/* Loads arrays into buffers and waits until they are there. Several threads read pieces into pinned
 * memory of Troupe's own (4 MiB a thread), from which the device takes them; no copy of the file
 * is made in memory. All parts are checked before anything is written. Ranges of different parts
 * must not overlap. After an error the ranges of all parts are undefined.
 * Errors: as of trp_io_read(), trp_write() and trp_await(). */
TRP_API trp_status trp_io_load(const trp_io_file *file, trp_device *device,
                               const trp_io_part *parts, uint64_t count,
                               const trp_io_options *options);

/* Loads arrays into one sealable buffer that is made here, each aligned to 256 bytes, and seals it:
 * *out is the buffer, offsets[i] is where array index[i] begins in it. `index` NULL means all
 * arrays in their order; `count` is then trp_io_count(). Arrays of .npz whose dtype is not read
 * are refused. The caller frees the buffer; after an error there is none. At least one array must
 * have an element.
 * Errors: as of trp_io_load(), trp_buffer_create_with() and trp_buffer_seal(). */
TRP_API trp_status trp_io_load_sealed(const trp_io_file *file, trp_device *device,
                                      const uint64_t *index, uint64_t count,
                                      const trp_io_options *options, trp_buffer *out,
                                      uint64_t *offsets);

/* An array that is saved: elements of `data` in host memory; or, if that is NULL, of `buffer` from
 * byte `offset` on. */
typedef struct trp_io_item {
    trp_io_array array; /* name, type, rank, dim, fortran_order */
    const void *data;
    trp_buffer buffer;
    uint64_t offset;
} trp_io_item;

typedef struct trp_io_pair {
    const char *key, *value; /* UTF-8 */
} trp_io_pair;

typedef struct trp_io_save_options {
    trp_io_format format;
    trp_device *device;          /* of the items' buffers; NULL: all are in host memory */
    const trp_io_pair *metadata; /* safetensors only; else TRP_E_UNSUPPORTED */
    uint64_t metadata_count;
    bool (*progress)(void *user_data, uint64_t done, uint64_t total); /* as in trp_io_options */
    void *user_data;
    uint64_t reserved[4]; /* must be 0 */
} trp_io_save_options;

/* Saves arrays to a file: .npy one, without a name; .npz and safetensors any number, with names
 * that differ. safetensors are laid out by falling size of their elements, as its own library does,
 * so that all are aligned; .npy is byte for byte what numpy.save() writes. options may be NULL.
 *
 * The file appears whole or not at all: it is written under a temporary name in the same folder,
 * synced, and renamed over the old one. After any error the temporary is gone and an old file is
 * unchanged. A file that is replaced passes its permissions on; a symbolic link stays, and the file
 * that it names is replaced. A path to anything but a regular file is refused. Errors:
 * TRP_E_ARGUMENT, TRP_E_UNSUPPORTED (the format lacks the type, or Fortran order), TRP_E_CANCELLED,
 * TRP_E_MEMORY, TRP_E_SYSTEM, and those of trp_read() and trp_await(). */
TRP_API trp_status trp_io_save(const char *path, const trp_io_item *items, uint64_t count,
                               const trp_io_save_options *options);

#ifdef __cplusplus
}
#endif
#endif
