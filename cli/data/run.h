/* Shared by commands that compute: a system, a device and an actor. */
#ifndef TRP_CLI_DATA_RUN_H
#define TRP_CLI_DATA_RUN_H

#include "ui/options.h"

#include <troupe/troupe.h>

/* The choice of a device, filled by RUN_DEVICE_OPTIONS of an option table. */
typedef struct run_choice {
    int backend;  /* a trp_backend */
    int64_t gpu;  /* -1: not given */
    bool standby; /* for commands that break the worker; others end before a standby is ready */
} run_choice;

#define RUN_CHOICE_INIT                                                                            \
    {                                                                                              \
        .backend = TRP_BACKEND_BEST, .gpu = -1                                                     \
    }

extern const char *const run_backend_names[]; /* by trp_backend, ends with NULL */

#define RUN_DEVICE_OPTIONS(choice)                                                                 \
    {.name = "device",                                                                             \
     .argument = "best|cuda|host",                                                                 \
     .help = "where to run (default best: a GPU if there is one)",                                 \
     .kind = OPTION_CHOICE,                                                                        \
     .target = &(choice).backend,                                                                  \
     .choices = run_backend_names},                                                                \
    {                                                                                              \
        .name = "gpu", .argument = "N", .help = "number of the GPU in CUDA (default 0)",           \
        .kind = OPTION_NUMBER, .target = &(choice).gpu                                             \
    }

/* Completes the choice; reports contradictions. */
bool run_choice_resolve(const struct command *command, run_choice *choice);

struct run {
    trp_system *system;
    trp_device *device;
    trp_actor *actor;
    trp_device_info info; /* at opening */
};

/* Opens system, device and an actor of a kind; `options` may be NULL. Reports errors. run_close()
 * ends what was opened, also after an error. */
bool run_open(struct run *run, const run_choice *choice, const char *kind,
              const trp_system_options *options);
void run_close(struct run *run);

/* Describes a device: "NVIDIA H200 (cuda 0)". */
typedef struct run_text {
    char s[160];
} run_text;
run_text run_device_text(const trp_device_info *info);

/* Checks before allocation that `need` bytes of `what` on the device fit into its memory. The host
 * backend's memory is the machine's own and committed page by page, so exceeding it would get this
 * process killed: there the device's copies and the `files` bytes of converted files count too. */
bool run_fits(const struct run *run, const char *what, double need, double files);

/* Returns true for TRP_OK; otherwise reports what failed and why. */
bool run_check(trp_status status, const char *doing);

/* Copies bytes to or from the start of a buffer; 0 bytes: does nothing. `what` is sent, in
 * messages; what is read is a result. */
bool run_upload(const struct run *run, trp_buffer buffer, const void *data, uint64_t bytes,
                const char *what);
bool run_download(const struct run *run, trp_buffer buffer, void *data, uint64_t bytes);

/* Waits for a request that trp_...(..., &completion) sent with status `sent`. */
bool run_await(trp_status sent, const trp_completion *completion, const char *doing);

#endif
