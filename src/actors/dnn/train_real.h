/* What train_f32.c and train_f64.c have: nodes of training computed in one type. */
#ifndef TRP_ACTORS_DNN_TRAIN_REAL_H
#define TRP_ACTORS_DNN_TRAIN_REAL_H

#include "actors/dnn/train_op.h"

void trp__train_scatter_f32(const trp__train_node *x);
void trp__train_scatter_f64(const trp__train_node *x);
void trp__train_cross_entropy_f32(const trp__train_node *x);
void trp__train_cross_entropy_f64(const trp__train_node *x);
void trp__train_loss_f32(const trp__train_node *x);
void trp__train_loss_f64(const trp__train_node *x);
void trp__train_rotary_f32(const trp__train_node *x);
void trp__train_rotary_f64(const trp__train_node *x);
void trp__train_optimizer_f32(const trp__train_node *x);
void trp__train_optimizer_f64(const trp__train_node *x);

#endif
