/* The functions of f32.c and f64.c: training nodes computed in one type. */
#ifndef TRP_ACTORS_DNN_TRAINING_REAL_H
#define TRP_ACTORS_DNN_TRAINING_REAL_H

#include "actors/dnn/training/parts.h"

/* Whether an AVX2 variant of the same text is built, which requires a compiler for x86-64. */
#if defined(__x86_64__) && defined(__GNUC__)
#define TRP__TRAIN_AVX2 1
#else
#define TRP__TRAIN_AVX2 0
#endif

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

void trp__train_scatter_f32_avx2(const trp__train_node *x);
void trp__train_cross_entropy_f32_avx2(const trp__train_node *x);
void trp__train_loss_f32_avx2(const trp__train_node *x);
void trp__train_rotary_f32_avx2(const trp__train_node *x);
void trp__train_optimizer_f32_avx2(const trp__train_node *x);

#endif
