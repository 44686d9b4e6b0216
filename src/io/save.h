/* The declarations shared by the parts of saving: checks and elements (save.c), and a writer for
 * each format (save_formats.c). */
#ifndef TRP_IO_SAVE_H
#define TRP_IO_SAVE_H

#include "io/file.h"

/* An array to be written, which has passed the checks. */
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
    uint32_t crc;     /* of the bytes written since it was set to 0 */
    unsigned char *staging;
    uint64_t piece;
} trp__io_saver;

/* Append bytes, or the elements of an array, to the file. */
trp_status trp__io_put(trp__io_saver *s, const void *data, uint64_t bytes, trp_error *error);
trp_status trp__io_put_elements(trp__io_saver *s, const trp__io_out *out, trp_error *error);

/* Each writes a whole file of its format, which the caller then renames to its place. */
trp_status trp__io_save_npy(trp__io_saver *s, trp_error *error);
trp_status trp__io_save_npz(trp__io_saver *s, trp_error *error);
trp_status trp__io_save_safetensors(trp__io_saver *s, trp_error *error);

#endif
