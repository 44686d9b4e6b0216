/* What the parts of saving share: checks and elements (save.c), and a writer for each format. */
#ifndef TRP_IO_SAVE_H
#define TRP_IO_SAVE_H

#include "io/file.h"

/* An array that is written, after its checks. */
typedef struct trp__io_out {
    const trp_io_item *item;
    const trp__io_type *type;
    uint64_t bytes;
} trp__io_out;

typedef struct trp__io_saver {
    const trp_io_save_options *options;
    trp_io_format format;
    trp__io_out *out;
    uint64_t count, total, done;
    trp__io_replacement file;
    uint64_t written; /* bytes of the file so far */
    uint32_t crc;     /* of what was written since it was set to 0 */
    unsigned char *staging;
    uint64_t piece;
} trp__io_saver;

/* Writes bytes, and the elements of an array, at the end of the file. */
trp_status trp__io_put(trp__io_saver *s, const void *data, uint64_t bytes, trp_error *error);
trp_status trp__io_put_elements(trp__io_saver *s, const trp__io_out *out, trp_error *error);

/* The whole of a file, but for the rename. */
trp_status trp__io_save_npy(trp__io_saver *s, trp_error *error);
trp_status trp__io_save_npz(trp__io_saver *s, trp_error *error);
trp_status trp__io_save_safetensors(trp__io_saver *s, trp_error *error);

#endif
