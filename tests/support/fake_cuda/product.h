/* The reference kernel of products, compiled as C for the fake driver. */
#ifndef TESTS_FAKE_CUDA_PRODUCT_H
#define TESTS_FAKE_CUDA_PRODUCT_H

#include <stdint.h>

void fake_product_reference(const uint64_t *parameter);

#endif
