/* Reads the figures of bench/peers/torch_dnn.py: one JSON result per line, with "name" first and
 * "us". */
#include "dnn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 512 };

/* Returns the text after "KEY": on a line, or NULL. */
static const char *value_of(const char *line, const char *key)
{
    char wanted[32];
    snprintf(wanted, sizeof wanted, "\"%s\": ", key);
    const char *at = strstr(line, wanted);
    return at ? at + strlen(wanted) : NULL;
}

double dnn_torch_ns(const suite *s, const char *name)
{
    char line[LINE], wanted[80];
    double ns = 0;
    FILE *file = s->torch ? fopen(s->torch, "r") : NULL;
    snprintf(wanted, sizeof wanted, "\"%s\"", name);
    while (file && ns == 0 && fgets(line, sizeof line, file)) {
        const char *named = value_of(line, "name"), *us = value_of(line, "us");
        if (named && us && strncmp(named, wanted, strlen(wanted)) == 0)
            ns = strtod(us, NULL) * 1e3;
    }
    if (file)
        fclose(file);
    return ns;
}
