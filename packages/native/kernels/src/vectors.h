/* Vectors of sixteen float32: one register with AVX-512, two with AVX2, four with NEON. */
#pragma once
#include <stdint.h>

/* Products and sums that are written apart stay apart: the kernels have the bits of their twins in WebAssembly. */
#pragma clang fp contract(off)

typedef float floats __attribute__((ext_vector_type(16)));
typedef float floats8 __attribute__((ext_vector_type(8)));
typedef float floats4 __attribute__((ext_vector_type(4)));
typedef int32_t integers __attribute__((ext_vector_type(16)));
/* The same at any address. */
typedef floats floats_anywhere __attribute__((aligned(4)));

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")

#define LANES 16

/* The name of a function with the instruction set that its file is compiled for, such as attend_tiles_avx2. */
#define JOINED(name, set) name##_##set
#define WITH_SET(name, set) JOINED(name, set)
#define EXPORTED(name) __attribute__((visibility("default"))) WITH_SET(name, INSTRUCTIONS)

INLINE floats load(const float *from) { return *(const floats_anywhere *)from; }
INLINE void store(float *to, floats value) { *(floats_anywhere *)to = value; }
INLINE floats splat(float value) { return (floats)value; }
INLINE floats multiply_add(floats a, floats b, floats c) { return __builtin_elementwise_fma(a, b, c); }
/* b if a < b, else a: skips NaN in b. */
INLINE floats greater_of(floats a, floats b) { return a < b ? b : a; }

/* Lanes i, i + 4, i + 8 and i + 12 joined as (0 + 1) + (2 + 3), the order of four vectors of WebAssembly. */
INLINE floats4 quarter(floats x, int i) {
  switch (i) {
    case 0: return __builtin_shufflevector(x, x, 0, 1, 2, 3);
    case 1: return __builtin_shufflevector(x, x, 4, 5, 6, 7);
    case 2: return __builtin_shufflevector(x, x, 8, 9, 10, 11);
    default: return __builtin_shufflevector(x, x, 12, 13, 14, 15);
  }
}
INLINE floats4 sum_of_quarters(floats x) { return (quarter(x, 0) + quarter(x, 1)) + (quarter(x, 2) + quarter(x, 3)); }

/*
 * e^x for x <= 0; 0 if x <= -50, NaN for NaN. Cephes expf, with the steps of packages/decoder/src/wasm/exponential.ts.
 */
INLINE floats exponential(floats x) {
  const floats smallest = splat(-50), rounder = splat(12582912.0f), one = splat(1);
  integers is_too_small = x <= smallest;
  x = greater_of(x, smallest);
  floats n = x * splat(1.4426950408889634f);
  n = n + rounder;
  integers power = (((integers)n << 23) + (integers)one) & ~is_too_small;
  n = n - rounder;
  x = multiply_add(n, splat(-0.693359375f), x);
  x = multiply_add(n, splat(2.1219444e-4f), x);
  floats series = splat(1.98756915e-4f);
  series = multiply_add(series, x, splat(1.3981999507e-3f));
  series = multiply_add(series, x, splat(8.3334519073e-3f));
  series = multiply_add(series, x, splat(4.1665795894e-2f));
  series = multiply_add(series, x, splat(1.6666665459e-1f));
  series = multiply_add(series, x, splat(5.0000001201e-1f));
  series = multiply_add(series, x * x, x);
  return (series + one) * (floats)power;
}
