#ifndef TRP_ACTORS_DNN_ENGINES_SITE_H
#define TRP_ACTORS_DNN_ENGINES_SITE_H

/* What a plan or a verdict holds for, as text. */
typedef struct trp__dnn_site {
    char gpu[160];    /* "NVIDIA H200, 132 multiprocessors" */
    char target[16];  /* "sm_90" */
    char driver[32];  /* "for CUDA 13.0" */
    char library[48]; /* "cuDNN 9.19.0" */
} trp__dnn_site;

#endif
