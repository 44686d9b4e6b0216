/* What the parts of the fake driver's memory share. The lock is held in all of it. */
#ifndef TESTS_FAKE_CUDA_MEMORY_H
#define TESTS_FAKE_CUDA_MEMORY_H

#include "support/fake_cuda/fake.h"

/* What cuMemCreate made, or another process's. */
typedef struct memory {
    int fd;
    int device;
    size_t bytes;
    bool imported;
    unsigned int references; /* the handle's and those of mappings */
} memory;

typedef enum range_kind {
    MAPPED,     /* cuMemMap */
    ALLOCATED,  /* cuMemAlloc, cuMemAllocAsync */
    REGISTERED, /* cuMemHostRegister */
    HOST,       /* cuMemHostAlloc */
} range_kind;

enum { ACCESS_NONE = 0, ACCESS_READ = 1, ACCESS_READWRITE = 3 };

struct fake_range {
    fake_range *next;
    range_kind kind;
    uint64_t address; /* the device's */
    size_t bytes;
    char *bytes_at; /* the processor's */
    int access;
    int device;
    bool claimed;   /* being freed */
    bool reachable; /* through its device address: it was mapped for the device */
    unsigned int pins;
    memory *memory; /* of MAPPED */
};

extern fake_range *fake_ranges;

/* False if the device has not so many bytes left. */
bool fake_take_bytes(int device, size_t bytes);
/* Gives up one of the references to what cuMemCreate made. */
void fake_memory_drop(memory *m);

/* NULL: no memory. */
fake_range *fake_range_add(const fake_range *like);
/* Takes it out at once, so that nothing finds it, and waits until nothing uses it. */
void fake_range_take_out(fake_range *range);
/* The same, and gives its memory back. */
void fake_range_free(fake_range *r);

#endif
