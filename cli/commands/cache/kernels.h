/* Compiles listed in a text file, one per line, for troupe cache warm, pack and explain. */
#ifndef TRP_CLI_COMMANDS_CACHE_KERNELS_H
#define TRP_CLI_COMMANDS_CACHE_KERNELS_H

#include <troupe/jit.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kernel_list {
    const char **item;
    uint32_t count;
} kernel_list;

typedef struct kernel {
    int line;         /* in the file, from 1; 0: an empty line */
    char *text;       /* the line without its comment, for messages */
    const char *path; /* of the source */
    const char *name; /* name in requests; NULL: the library's default */
    kernel_list options, includes, names, header_names, header_paths;
    trp_jit_output output;
    bool portable;
    /* Once read: */
    char *source;
    trp_jit_header *headers;
    char *words;       /* memory of the fields above */
    kernel_list owned; /* more of it */
} kernel;

/* Parses a line without its newline. Relative paths begin at `folder` (NULL: the current one).
 * False: a mistake; `error` names the word and what was expected. The caller ends *out in any
 * case. */
bool kernel_parse(const char *line, const char *folder, kernel *out, char *error, size_t size);

/* Makes the request; it points into `k`. */
trp_jit_compile_request kernel_request(const kernel *k, const char *architecture);

void kernel_end(kernel *k);

/* Reads a file of kernels with their sources. Reports mistakes with file and line. */
bool kernels_read_file(const char *path, kernel **out, size_t *count);
void kernels_end(kernel *all, size_t count);

/* Help text on such files. */
#define KERNELS_HELP                                                                               \
    "One compile a line: the path of a source, then options as NVRTC has them (-DN=4,\n"           \
    "--use_fast_math), and any of these; '#' begins a comment. A word with spaces in it\n"         \
    "has quotes. Relative paths begin at FILE's folder.\n\n"                                       \
    "  --name EXPRESSION  what shall be found in it: \"scale<float, 4>\"\n"                        \
    "  --include DIR      a folder with headers\n"                                                 \
    "  --header NAME=PATH a header that the program brings in memory\n"                            \
    "  --as NAME          the source's name in the program's requests, where it gives one\n"       \
    "  --output cubin|ptx|ltoir|cubin-lto\n"                                                       \
    "  --portable         what is made does not depend on where folders of headers lie"

#endif
