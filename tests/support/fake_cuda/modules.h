/* Modules of the fake driver, as read from images. */
#ifndef TESTS_FAKE_CUDA_MODULES_H
#define TESTS_FAKE_CUDA_MODULES_H

#include "support/fake_cuda/fake.h"

enum {
    ENTRIES = 128,
    VARIABLES = 16,
    NAME_BYTES = 128,
    PARAMETERS = 32,
    WORDS = 4096 / 8, /* words of all parameters of a kernel */
    TARGET = 90,
    SHARED_OWN = 64, /* bytes of static shared memory of each kernel */
    /* and of dynamic shared memory that needs no attribute */
    SHARED_USUAL = (48 << 10) - SHARED_OWN,
    SHARED_MOST = 227 << 10,
};

typedef struct module module;

typedef struct entry {
    module *module;
    char name[NAME_BYTES];
    size_t parameter_count;
    size_t parameter_bytes[PARAMETERS];
    uintptr_t handle; /* returned by cuModuleGetFunction; 0: not yet */
    unsigned int shared_most;
} entry;

typedef struct variable {
    char name[NAME_BYTES];
    size_t bytes;
    trp__cu_address address;
} variable;

struct module {
    size_t count, variables;
    entry entry[ENTRIES];
    variable variable[VARIABLES];
};

/* Reads PTX text or a cubin into a zeroed module, and allocates its variables. The lock is held. */
int fake_image_read(const void *image, module *m);

#endif
