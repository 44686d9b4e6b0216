/* Numbers that a graph has by value. */
#ifndef TRP_ACTORS_DNN_GRAPH_VALUES_H
#define TRP_ACTORS_DNN_GRAPH_VALUES_H

#include <stdint.h>

/* A value as its type holds it, at most 8 bytes; and what number that is, of i64 the bits. */
void trp__dnn_value_store(uint8_t type, double value, void *out);
double trp__dnn_value_number(uint8_t type, const void *value);

#endif
