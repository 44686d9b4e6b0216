/* Types in which products, norms and pooling run that nothing takes in their own. `tensor`: the
 * tensors of the node's graph. */
#ifndef TRP_ACTORS_DNN_LOWER_TYPES_H
#define TRP_ACTORS_DNN_LOWER_TYPES_H

#include "actors/dnn/lower/lower.h"

/* Whether a product reads what converts to f32 without loss, or what it computes in, and its sums
 * can be rounded to what it writes behind it. Its ports are those of convolutions. */
bool trp__lower_has_wider_type(const trp__dnn_tensor *tensor, const trp__dnn_node *node);

/* Returns the type of such a product's operand, as a library takes it. */
uint8_t trp__lower_type_alike(const trp__dnn_tensor *tensor, const trp__dnn_node *node, int port,
                              trp__dnn_lowering lowering);

/* Tells whether a port of a norm or of pooling is converted: an operand in 8 bits, and a result in
 * f64 of a norm, whose kernels take f64 for statistics only. Indices of pooling stay. */
bool trp__lower_is_converted(const trp__dnn_tensor *tensor, const trp__dnn_node *node, int port);

#endif
