/* The commands. Each gets its own name as argv[0] and returns the exit status. */
#ifndef TRP_CLI_COMMANDS_H
#define TRP_CLI_COMMANDS_H

int command_kernels(int argc, char **argv);
int command_matmul(int argc, char **argv);
int command_cutlass(int argc, char **argv);
int command_conv(int argc, char **argv);
int command_pool(int argc, char **argv);
int command_norm(int argc, char **argv);
int command_attention(int argc, char **argv);
int command_dnn(int argc, char **argv);
int command_tune(int argc, char **argv);
int command_cache(int argc, char **argv);
int command_demo(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_top(int argc, char **argv);

#endif
