/* Modules of the jit and cutlass actors, as both processes see them. A module is an object with a
 * *storage* in the heap: the sender stores the input there, the worker the output, and every later
 * worker finds the output there.
 *
 *   head     trp__storage_head: writes to variables, rejections of kernels
 *   input    of the compile; the actor defines it
 *   output   trp__storage_output, then log, names, headers, image and stamps
 */
#ifndef TRP_COMPILE_MODULES_STORAGE_H
#define TRP_COMPILE_MODULES_STORAGE_H

#include <stdatomic.h>
#include <stdint.h>

#define TRP__OUTPUT_DEFAULT (UINT64_C(16) << 20)
#define TRP__OUTPUT_MAX     (UINT64_C(1) << 30)
#define TRP__STORAGE_OUTPUT UINT64_C(0x7475706d6f682e31) /* first word of a complete output */
#define TRP__MODULE_SETS    32

/* Location of a module's storage, in a record. */
typedef struct trp__storage {
    uint32_t segment;
    uint32_t output_kind; /* trp_jit_output */
    uint64_t offset;      /* of the head in the segment */
    uint32_t input_bytes;
    uint32_t output_bytes; /* room for the output */
    uint64_t shared;       /* where a shared output lies; 0: the module has its own */
} trp__storage;

/* A write to a variable. The application fills it while `number` is 0, which means empty to
 * workers; the worker that writes it sets `number` to the request's ticket. A worker that loads the
 * module later repeats all writes with a lower ticket than the request it loads it for. */
typedef struct trp__storage_set {
    _Atomic uint64_t number;
    uint64_t data; /* offset in the segment: the variable's name, terminated, then the bytes */
    uint64_t at;   /* bytes, in the variable */
    uint32_t name_bytes; /* with the end */
    uint32_t bytes;
    uint64_t checksum; /* of name and bytes */
} trp__storage_set;

typedef struct trp__storage_head {
    trp__storage_set set[TRP__MODULE_SETS];
    /* How often a worker has found that a kernel may not serve a problem: who sends requests looks
     * for the verdicts. */
    _Atomic uint32_t rejections;
    uint32_t reserved;
} trp__storage_head;

typedef struct trp__storage_output {
    uint64_t magic; /* written last */
    uint32_t names, headers;
    uint32_t keepable; /* 1: a repeated request makes the same, as long as the stamps match */
    uint32_t reserved;
    uint64_t log_bytes, names_bytes, headers_bytes, image_bytes, stamps_bytes;
    uint64_t checksum; /* of all that follows this struct */
} trp__storage_output;

/* A file that was read, or an absent one that was searched; the path follows. Stamps are packed,
 * without alignment. */
typedef struct trp__storage_stamp {
    uint64_t device, inode, bytes;
    int64_t modified_ns, changed_ns;
    uint32_t exists;
    uint32_t path_bytes; /* with its end */
} trp__storage_stamp;

static inline uint64_t trp__storage_input_at(const trp__storage *storage)
{
    return storage->offset + (sizeof(trp__storage_head) + 63) / 64 * 64;
}

static inline uint64_t trp__storage_output_at(const trp__storage *storage)
{
    return storage->shared
               ? storage->shared
               : trp__storage_input_at(storage) + ((uint64_t)storage->input_bytes + 63) / 64 * 64;
}

/* Total bytes of a module's storage. */
static inline uint64_t trp__storage_bytes(const trp__storage *storage)
{
    return storage->shared
               ? trp__storage_input_at(storage) + storage->input_bytes - storage->offset
               : trp__storage_output_at(storage) + storage->output_bytes - storage->offset;
}

/* Total bytes of an output; UINT64_MAX if its sizes exceed `room`. */
static inline uint64_t trp__storage_output_size(const trp__storage_output *output, uint64_t room)
{
    if (room < sizeof *output)
        return UINT64_MAX;
    uint64_t left = room - sizeof *output;
    const uint64_t part[] = {output->log_bytes, output->names_bytes, output->headers_bytes,
                             output->image_bytes, output->stamps_bytes};
    for (int i = 0; i < 5; i++) {
        if (part[i] > left)
            return UINT64_MAX;
        left -= part[i];
    }
    return room - left;
}

#endif
