/* Files that are in the program as text; see cmake/TroupeEmbed.cmake. */
#ifndef TRP_BASE_EMBEDDED_H
#define TRP_BASE_EMBEDDED_H

typedef struct trp__embedded {
    const char *name; /* NULL: the end of the array */
    const char *text;
} trp__embedded;

/* The sources of Troupe's own kernels, see compile/own/own.h. */
extern const trp__embedded trp__kernel_texts[];

#endif
