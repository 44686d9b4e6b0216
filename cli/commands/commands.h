/* The table of commands, from which commands are dispatched and shell completions generated. */
#ifndef TRP_CLI_COMMANDS_COMMANDS_H
#define TRP_CLI_COMMANDS_COMMANDS_H

/* Each command, in the order of the help: ROW(name, summary) is command_<name>();
 * GROUP(name, summary, about) has the subcommands <name>_commands[] and some lines of help about
 * them, in the file or folder of its name. */
#define COMMANDS(ROW, GROUP)                                                                       \
    ROW(matmul, "multiply matrices in NumPy files")                                                \
    GROUP(cutlass, "multiply, with an epilogue of one's own",                                      \
          "Matrix products and convolutions with an epilogue of one's own.")                       \
    ROW(conv, "convolve arrays in NumPy files, or take gradients of it")                           \
    ROW(pool, "pool arrays in NumPy files, or take the gradient of it")                            \
    ROW(norm, "normalise arrays in NumPy files")                                                   \
    ROW(attention, "attention of arrays in NumPy files, and its gradient")                         \
    ROW(fft, "Fourier transforms of arrays in NumPy files")                                        \
    ROW(random, "arrays of random numbers in NumPy files")                                         \
    ROW(proofs, "results of proofs of engines, algorithms and kernels")                            \
    ROW(tune, "search for the fastest algorithms ahead of time")                                   \
    GROUP(cache, "the kernel cache: list, verify, prune, warm, pack, explain",                     \
          "The kernel cache: what was compiled once, by any process of this user, and the packs\n" \
          "that TROUPE_CACHE_PACKS names.")                                                        \
    ROW(kernels, "compile Troupe's own kernels ahead")                                             \
    ROW(demo, "two products with a fault between them, each checked")                              \
    ROW(doctor, "check this machine: hardware, libraries, what to install")                        \
    ROW(top, "show the activity of devices of processes")                                          \
    ROW(bench, "measure Troupe against the raw libraries")                                         \
    ROW(completion, "print the completions of a shell")                                            \
    ROW(version, "the version, and that of the libraries")

/* A command, or a group of subcommands. */
typedef struct command_entry {
    const char *name, *summary;
    /* Gets its own name as argv[0]; returns the exit status. NULL: a group */
    int (*run)(int argc, char **argv);
    const char *about;               /* of a group: lines of text */
    const struct command_entry *sub; /* likewise: ends with an empty row */
} command_entry;

extern const command_entry commands[]; /* ends with an empty row */

/* Runs the command in argv[1]. */
int commands_run(int argc, char **argv);

#define ROW(name, summary)          int command_##name(int argc, char **argv);
#define GROUP(name, summary, about) extern const command_entry name##_commands[];
COMMANDS(ROW, GROUP)
#undef ROW
#undef GROUP

#endif
