/* The table of commands, from which commands are dispatched and shell completions generated. */
#ifndef TRP_CLI_COMMANDS_COMMANDS_H
#define TRP_CLI_COMMANDS_COMMANDS_H

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

int command_kernels(int argc, char **argv);
int command_proofs(int argc, char **argv);
int command_matmul(int argc, char **argv);
int command_conv(int argc, char **argv);
int command_pool(int argc, char **argv);
int command_norm(int argc, char **argv);
int command_attention(int argc, char **argv);
int command_tune(int argc, char **argv);
int command_demo(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_top(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_completion(int argc, char **argv);
int command_version(int argc, char **argv);

/* The groups, each in the file of its name. */
extern const command_entry cutlass_commands[], cache_commands[];

#endif
