/* Shared by the files of the fake driver's memory. All functions expect the lock. */
#ifndef TESTS_FAKE_CUDA_MEMORY_H
#define TESTS_FAKE_CUDA_MEMORY_H

#include "support/fake_cuda/fake.h"

/* Memory of cuMemCreate, or of another process. */
typedef struct memory {
    int fd;
    int device;
    size_t bytes;
    bool imported;
    unsigned int references; /* by the handle and by mappings */
} memory;

typedef enum range_kind {
    MAPPED,     /* by cuMemMap */
    ALLOCATED,  /* by cuMemAlloc, cuMemAllocAsync */
    REGISTERED, /* by cuMemHostRegister */
    HOST,       /* by cuMemHostAlloc */
} range_kind;

enum { ACCESS_NONE = 0, ACCESS_READ = 1, ACCESS_READWRITE = 3 };

struct fake_range {
    fake_range *next;
    range_kind kind;
    uint64_t address; /* the device address */
    size_t bytes;
    char *bytes_at; /* the processor's address */
    int access;
    int device;
    bool claimed;   /* cuMemFreeAsync will free it */
    bool reachable; /* usable through its device address, as it was mapped for the device */
    unsigned int pins;
    memory *memory; /* of MAPPED */
};

extern fake_range *fake_ranges;

/* Returns false if the device has fewer bytes left. */
bool fake_take_bytes(int device, size_t bytes);
/* Drops a reference to memory of cuMemCreate. */
void fake_memory_drop(memory *m);

/* Returns the range; NULL: out of memory. */
fake_range *fake_range_add(const fake_range *like);
/* Removes the range at once, so that nothing finds it, and waits until nothing uses it. */
void fake_range_take_out(fake_range *range);
/* Does the same, and releases its memory. */
void fake_range_free(fake_range *r);

#endif
