/* Numbers passed by value in a graph. */
#ifndef TRP_ACTORS_DNN_GRAPH_VALUES_H
#define TRP_ACTORS_DNN_GRAPH_VALUES_H

#include <stdint.h>

/* Store a value in its type, at most 8 bytes, and return the stored number, or the bits of an
 * i64. */
void trp__dnn_value_store(uint8_t type, double value, void *out);
double trp__dnn_value_number(uint8_t type, const void *value);

#endif
