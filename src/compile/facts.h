/* What a source or header says that matters to where headers are found: its includes, the macros
 * that may stand for names of files, and whether it asks where files lie. The same text says the
 * same wherever it lies, so what was found of a file is kept in this process. */
#ifndef TRP_COMPILE_FACTS_H
#define TRP_COMPILE_FACTS_H

#include "cache/hash.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum trp__jit_fact_kind {
    TRP__JIT_INCLUDES = 0, /* `operand`, "file" or <file> with its quotes */
    /* What the macro `name` stands for; with `operand` as its argument, if that is not NULL. */
    TRP__JIT_INCLUDES_MACRO,
    /* The macro `name` as `operand`: "file", <file>, or a part of that, a word with slashes and
     * points; NULL: as anything else. */
    TRP__JIT_DEFINES,
    TRP__JIT_DEFINES_OF_ONE, /* the same, of one parameter, for which TRP__JIT_PARAMETER stands */
    TRP__JIT_DEFINES_TEST,   /* the macro `name` of one parameter uses __has_include() on that */
    /* Calls the macro `name` where it may be such a test, on `operand`; NULL: on anything else. */
    TRP__JIT_CALLS,
} trp__jit_fact_kind;

#define TRP__JIT_PARAMETER '\1'

typedef struct trp__jit_fact {
    trp__jit_fact_kind kind;
    bool all; /* include_next and its kind: any of the files of that name may be meant */
    const char *name, *operand;
} trp__jit_fact;

/* Never changes once it is made. */
typedef struct trp__jit_facts {
    trp__hash content;
    size_t count; /* without calls, */
    size_t calls; /* which are behind the others */
    const trp__jit_fact *fact;
    bool unsure; /* it may include what is not listed, or says when it is compiled */
    /* It may ask for the path of the file in which it says so; of the file that uses what it
     * defines. A macro may also put such a word together: it has ## somewhere, and somewhere there
     * are parts of one. */
    bool asks_here, asks_elsewhere, pastes, has_parts;
    char *strings; /* memory of the facts */
    atomic_uint holders;
} trp__jit_facts;

/* Which version of a file was read: equal for equal contents, see trp__jit_facts_of_file(). */
typedef struct trp__jit_stamp {
    uint64_t device, inode, bytes;
    int64_t modified_ns, changed_ns;
} trp__jit_stamp;

/* Whether a text or option asks where files lie. */
bool trp__jit_asks_for_paths(const char *text);

/* NULL: no memory. To be released. */
const trp__jit_facts *trp__jit_facts_of(const char *text, size_t bytes);

typedef enum trp__jit_file {
    TRP__JIT_FILE_READ = 0,
    TRP__JIT_FILE_NONE,       /* there is none */
    TRP__JIT_FILE_UNREADABLE, /* there is something that can't be read as a header */
    TRP__JIT_FILE_NO_MEMORY,
} trp__jit_file;

/* Reads the file at `path`, or takes what is known of it, if device, inode, size and both times are
 * as they were, and were not so young when it was read that a change after that could have left
 * them. *settled: so they are now, and can be compared later. Any thread. */
trp__jit_file trp__jit_facts_of_file(const char *path, const trp__jit_facts **out,
                                     trp__jit_stamp *stamp, bool *settled);

/* NULL is ignored. */
void trp__jit_facts_release(const trp__jit_facts *facts);

/* How many files were read, and how many were known, since the process began. For tests. */
void trp__jit_facts_counts(uint64_t *read, uint64_t *known);

#endif
