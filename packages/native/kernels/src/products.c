/*
 * Products by quantised weights, with the bits of packages/decoder/src/products/quantised-code.ts: every result is a
 * chain of multiply-adds over 256 values from 0, then added to what is there.
 */
#include "vectors.h"

enum {
  BLOCK_VALUES = 32,
  GROUP_ROWS = 8,
  SUM_VALUES = 256,
};

/* Rows of x whose sums registers hold together. */
#if defined(__AVX512F__)
enum { MAX_ROWS = 12 };
#else
enum { MAX_ROWS = 4 };
#endif

/* Cells of product-work.ts, in its order. Places are bytes from the memory's start. */
struct product {
  double format, num_rows, x, x_row_bytes, y, y_row_bytes, weights, num_groups, groups_per_unit;
};

enum format { AFFINE4, SCALED8 };

/* Pairs that are multiplied together. */
enum { MAX_PAIRS = 2 };

/* Two groups of weight rows, whose sixteen lanes are multiplied together; the same group twice if one is left. */
struct pair {
  const uint8_t *first, *second;
};

typedef uint8_t bytes16 __attribute__((ext_vector_type(16), aligned(1)));
typedef int8_t signed16 __attribute__((ext_vector_type(16), aligned(1)));

INLINE floats join(floats8 a, floats8 b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
typedef floats8 floats8_anywhere __attribute__((aligned(4)));
INLINE floats load_pair(struct pair pair, int64_t at) {
  return join(*(const floats8_anywhere *)(pair.first + at), *(const floats8_anywhere *)(pair.second + at));
}
/* Eight bytes of each group: those of an even value, or of the odd one after it. */
INLINE bytes16 even_of(bytes16 a, bytes16 b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
}
INLINE bytes16 odd_of(bytes16 a, bytes16 b) {
  return __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
}

/* Scales and offsets of a block. */
struct scaling {
  floats scale, offset;
};
INLINE struct scaling scaling_of(const enum format format, struct pair pair) {
  struct scaling scaling = {load_pair(pair, 0), splat(0)};
  if (format == AFFINE4) scaling.offset = load_pair(pair, 32);
  return scaling;
}

/* Weights of four values of a block, the first a multiple of four. */
INLINE void expand_four(const enum format format, struct pair pair, struct scaling by, int value, floats weights[4]) {
  if (format == AFFINE4) {
    bytes16 a = *(const bytes16 *)(pair.first + 64 + 4 * value), b = *(const bytes16 *)(pair.second + 64 + 4 * value);
    bytes16 even = even_of(a, b), odd = odd_of(a, b);
    weights[0] = multiply_add(__builtin_convertvector(even & 15, floats), by.scale, by.offset);
    weights[1] = multiply_add(__builtin_convertvector(odd & 15, floats), by.scale, by.offset);
    weights[2] = multiply_add(__builtin_convertvector(even >> 4, floats), by.scale, by.offset);
    weights[3] = multiply_add(__builtin_convertvector(odd >> 4, floats), by.scale, by.offset);
  } else {
    UNROLL for (int i = 0; i < 4; i += 2) {
      int64_t at = 32 + 8 * (value + i);
      bytes16 a = *(const bytes16 *)(pair.first + at), b = *(const bytes16 *)(pair.second + at);
      weights[i] = __builtin_convertvector((signed16)even_of(a, b), floats) * by.scale;
      weights[i + 1] = __builtin_convertvector((signed16)odd_of(a, b), floats) * by.scale;
    }
  }
}

INLINE int64_t block_bytes(enum format format) { return format == AFFINE4 ? 192 : 288; }

/* Adds sums of n rows to y, in all sixteen columns or the first eight. */
INLINE void add_sums(const int n, const floats *sums, float *y, int64_t y_stride, int is_whole) {
  UNROLL for (int row = 0; row < n; row++) {
    float *to = y + row * y_stride;
    if (is_whole) {
      store(to, load(to) + sums[row]);
    } else {
      floats8 half = __builtin_shufflevector(sums[row], sums[row], 0, 1, 2, 3, 4, 5, 6, 7);
      *(floats8_anywhere *)to = *(floats8_anywhere *)to + half;
    }
  }
}

/* Sums [pairs, n] of n rows over the values of some blocks. A sum waits for its last step, so few rows need more. */
INLINE void multiply_blocks(const int n, const int num_pairs, const enum format format, const struct pair *first,
                            int64_t num_blocks, const float *x, int64_t x_stride, floats *sums) {
  struct pair pairs[MAX_PAIRS];
  UNROLL for (int p = 0; p < num_pairs; p++) pairs[p] = first[p];
  UNROLL for (int i = 0; i < num_pairs * n; i++) sums[i] = splat(0);
  for (int64_t block = 0; block < num_blocks; block++) {
    struct scaling by[MAX_PAIRS];
    UNROLL for (int p = 0; p < num_pairs; p++) by[p] = scaling_of(format, pairs[p]);
    for (int value = 0; value < BLOCK_VALUES; value += 4) {
      UNROLL for (int p = 0; p < num_pairs; p++) {
        floats weights[4];
        expand_four(format, pairs[p], by[p], value, weights);
        UNROLL for (int i = 0; i < 4; i++)
          UNROLL for (int row = 0; row < n; row++)
            sums[p * n + row] = multiply_add(splat(x[row * x_stride + value + i]), weights[i], sums[p * n + row]);
      }
    }
    x += BLOCK_VALUES;
    UNROLL for (int p = 0; p < num_pairs; p++) {
      pairs[p].first += block_bytes(format);
      pairs[p].second += block_bytes(format);
    }
  }
}

/* The same by weights that were expanded, [values, 16]. */
INLINE void multiply_expanded(const int n, const float *weights, int64_t num_values, const float *x, int64_t x_stride,
                              floats *sums) {
  UNROLL for (int row = 0; row < n; row++) sums[row] = splat(0);
  for (int64_t value = 0; value < num_values; value++) {
    floats lanes = load(weights + value * LANES);
    UNROLL for (int row = 0; row < n; row++) sums[row] = multiply_add(splat(x[row * x_stride + value]), lanes, sums[row]);
  }
}

INLINE void expand(const enum format format, struct pair pair, int64_t num_blocks, float *to) {
  for (int64_t block = 0; block < num_blocks; block++) {
    struct scaling by = scaling_of(format, pair);
    for (int value = 0; value < BLOCK_VALUES; value += 4, to += 4 * LANES) {
      floats weights[4];
      expand_four(format, pair, by, value, weights);
      UNROLL for (int i = 0; i < 4; i++) store(to + i * LANES, weights[i]);
    }
    pair.first += block_bytes(format);
    pair.second += block_bytes(format);
  }
}

/* Counts of rows: so few that two pairs are multiplied together, and more. */
#if defined(__AVX512F__)
#define EACH_SMALL_COUNT(CASE) CASE(1) CASE(2) CASE(3)
#define EACH_LARGE_COUNT(CASE) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
enum { MAX_SMALL_ROWS = 3 };
#else
#define EACH_SMALL_COUNT(CASE) CASE(1)
#define EACH_LARGE_COUNT(CASE) CASE(2) CASE(3) CASE(4)
enum { MAX_SMALL_ROWS = 1 };
#endif

/* Rows and their places, for y += x · Wᵀ. */
struct rows {
  const float *x;
  float *y;
  int64_t count, x_stride, y_stride, num_values;
};

INLINE void add_few_rows(const enum format format, const int num_pairs, struct pair *pairs, int is_whole, struct rows rows) {
  for (int64_t value = 0; value < rows.num_values; value += SUM_VALUES) {
    int64_t left = rows.num_values - value;
    int64_t num_blocks = (left < SUM_VALUES ? left : SUM_VALUES) / BLOCK_VALUES;
    floats sums[MAX_ROWS];
    switch (rows.count) {
#define CASE(n)                                                                                          \
  case n:                                                                                                \
    multiply_blocks(n, num_pairs, format, pairs, num_blocks, rows.x + value, rows.x_stride, sums);       \
    UNROLL for (int p = 0; p < num_pairs; p++)                                                           \
      add_sums(n, sums + p * n, rows.y + p * LANES, rows.y_stride, is_whole);                            \
    break;
      EACH_SMALL_COUNT(CASE)
#undef CASE
#define CASE(n)                                                                                          \
  case n:                                                                                                \
    multiply_blocks(n, 1, format, pairs, num_blocks, rows.x + value, rows.x_stride, sums);               \
    add_sums(n, sums, rows.y, rows.y_stride, is_whole);                                                  \
    break;
      EACH_LARGE_COUNT(CASE)
#undef CASE
    }
    UNROLL for (int p = 0; p < num_pairs; p++) {
      pairs[p].first += num_blocks * block_bytes(format);
      pairs[p].second += num_blocks * block_bytes(format);
    }
  }
}

INLINE void add_many_rows(const enum format format, struct pair pair, int is_whole, struct rows rows) {
  float weights[SUM_VALUES * LANES] __attribute__((aligned(64)));
  for (int64_t value = 0; value < rows.num_values; value += SUM_VALUES) {
    int64_t left = rows.num_values - value;
    int64_t num_values = left < SUM_VALUES ? left : SUM_VALUES, num_blocks = num_values / BLOCK_VALUES;
    expand(format, pair, num_blocks, weights);
    for (int64_t row = 0; row < rows.count;) {
      int64_t rest = rows.count - row, calls = (rest + MAX_ROWS - 1) / MAX_ROWS, count = (rest + calls - 1) / calls;
      const float *x = rows.x + row * rows.x_stride + value;
      float *y = rows.y + row * rows.y_stride;
      floats sums[MAX_ROWS];
      switch (count) {
#define CASE(n)                                                             \
  case n:                                                                   \
    multiply_expanded(n, weights, num_values, x, rows.x_stride, sums);      \
    add_sums(n, sums, y, rows.y_stride, is_whole);                          \
    break;
        EACH_SMALL_COUNT(CASE) EACH_LARGE_COUNT(CASE)
#undef CASE
      }
      row += count;
    }
    pair.first += num_blocks * block_bytes(format);
    pair.second += num_blocks * block_bytes(format);
  }
}

INLINE void add_groups(const enum format format, const uint8_t *weights, int64_t num_groups, struct rows rows) {
  int64_t group_bytes = rows.num_values / BLOCK_VALUES * block_bytes(format);
  for (int64_t group = 0; group < num_groups;) {
    const uint8_t *at = weights + group * group_bytes;
    int is_whole = group + 1 < num_groups;
    struct pair pairs[MAX_PAIRS] = {
      {at, is_whole ? at + group_bytes : at},
      {at + 2 * group_bytes, at + 3 * group_bytes},
    };
    struct rows columns = rows;
    columns.y += group * GROUP_ROWS;
    if (rows.count > MAX_ROWS) add_many_rows(format, pairs[0], is_whole, columns);
    else if (rows.count > MAX_SMALL_ROWS || group + 3 >= num_groups) add_few_rows(format, 1, pairs, is_whole, columns);
    else {
      add_few_rows(format, 2, pairs, 1, columns);
      group += 2;
    }
    group += 2;
  }
}

/* A unit of groups of weight rows, which are columns of y. */
void EXPORTED(add_product)(char *memory, const struct product *product, int32_t unit) {
  int64_t first = unit * (int64_t)product->groups_per_unit;
  int64_t end = first + (int64_t)product->groups_per_unit;
  if (end > (int64_t)product->num_groups) end = (int64_t)product->num_groups;
  struct rows rows = {
    .x = (const float *)(memory + (int64_t)product->x),
    .y = (float *)(memory + (int64_t)product->y) + first * GROUP_ROWS,
    .count = (int64_t)product->num_rows,
    .x_stride = (int64_t)product->x_row_bytes / 4,
    .y_stride = (int64_t)product->y_row_bytes / 4,
    .num_values = (int64_t)product->x_row_bytes / 4,
  };
  int64_t blocks = rows.num_values / BLOCK_VALUES;
  const uint8_t *weights = (const uint8_t *)memory + (int64_t)product->weights;
  if (product->format == AFFINE4) add_groups(AFFINE4, weights + first * blocks * block_bytes(AFFINE4), end - first, rows);
  else add_groups(SCALED8, weights + first * blocks * block_bytes(SCALED8), end - first, rows);
}
