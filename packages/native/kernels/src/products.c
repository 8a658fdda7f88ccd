/*
 * Products by packed weights, in the formats of packages/decoder/src/products/weight-formats.ts, with the bits of
 * packed-code.ts: every result is a chain of multiply-adds over 256 values from 0, then added to what is there.
 */
#include "vectors.h"

enum {
  BLOCK_VALUES = 32,
  GROUP_ROWS = 8,
  SUM_VALUES = 256,
};

/*
 * Rows of x and pairs of groups whose sums are in registers together, and the rows for which two pairs are expanded and
 * multiplied at once. A panel is PANEL_PAIRS of expanded pairs; those of MAX_PANELS are in the second-level cache, so
 * that rows are read once for all of them.
 */
#if defined(__AVX512F__)
#define EACH_COUNT(CASE) \
  CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
enum { MAX_ROWS = 12, MAX_ROWS_OF_TWO_PAIRS = 8, PANEL_PAIRS = 2, MAX_PANELS = 4 };
#else
#define EACH_COUNT(CASE) CASE(1) CASE(2) CASE(3) CASE(4)
enum { MAX_ROWS = 4, MAX_ROWS_OF_TWO_PAIRS = 1, PANEL_PAIRS = 1, MAX_PANELS = 1 };
#endif

/*
 * Cells of packed-product-work.ts, in its order, for y = sum + x · Wᵀ. Places are bytes from the memory's start, of
 * weights and results maybe before it; a sum of NaN is 0.
 */
struct product {
  double format, num_rows, x, x_row_bytes, sum, y, y_row_bytes, weights, num_columns, columns_per_unit;
};

enum format { AFFINE4, SCALED8, AFFINE8, HALF_SCALED8, BF16, F16, F32 };

/* Pairs that are multiplied together while they are expanded. */
enum { MAX_PAIRS = 2 };

/* Two groups of weight rows, whose sixteen lanes are multiplied together; the same group twice if one is left. */
struct pair {
  const uint8_t *first, *second;
};

typedef uint8_t bytes16 __attribute__((ext_vector_type(16), aligned(1)));
typedef int8_t signed16 __attribute__((ext_vector_type(16), aligned(1)));
typedef uint16_t shorts8 __attribute__((ext_vector_type(8)));
typedef uint16_t shorts16 __attribute__((ext_vector_type(16)));
typedef uint32_t words16 __attribute__((ext_vector_type(16)));
typedef _Float16 halves16 __attribute__((ext_vector_type(16)));
typedef shorts8 shorts8_anywhere __attribute__((aligned(2)));

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

/* Two numbers of each weight row in a block, if its format has them: a scale, and an offset or another scale. */
struct scaling {
  floats scale, other;
};
INLINE struct scaling scaling_of(const enum format format, struct pair pair) {
  struct scaling scaling = {splat(0), splat(0)};
  if (format <= HALF_SCALED8) scaling.scale = load_pair(pair, 0);
  if (format == AFFINE4 || format == AFFINE8 || format == HALF_SCALED8) scaling.other = load_pair(pair, 32);
  return scaling;
}

INLINE int64_t block_bytes(enum format format) {
  switch (format) {
    case AFFINE4: return 192;
    case SCALED8: return 288;
    case AFFINE8: case HALF_SCALED8: return 320;
    case BF16: case F16: return 512;
    default: return 1024;
  }
}

/* Weights of four values of a block, the first a multiple of four. */
INLINE void expand_four(const enum format format, struct pair pair, struct scaling by, int value, floats weights[4]) {
  if (format == AFFINE4) {
    bytes16 a = *(const bytes16 *)(pair.first + 64 + 4 * value), b = *(const bytes16 *)(pair.second + 64 + 4 * value);
    bytes16 even = even_of(a, b), odd = odd_of(a, b);
    weights[0] = multiply_add(__builtin_convertvector(even & 15, floats), by.scale, by.other);
    weights[1] = multiply_add(__builtin_convertvector(odd & 15, floats), by.scale, by.other);
    weights[2] = multiply_add(__builtin_convertvector(even >> 4, floats), by.scale, by.other);
    weights[3] = multiply_add(__builtin_convertvector(odd >> 4, floats), by.scale, by.other);
  } else if (format == F32) {
    UNROLL for (int i = 0; i < 4; i++) weights[i] = load_pair(pair, 32 * (value + i));
  } else if (format == BF16 || format == F16) {
    UNROLL for (int i = 0; i < 4; i++) {
      int64_t at = 16 * (value + i);
      shorts8 a = *(const shorts8_anywhere *)(pair.first + at), b = *(const shorts8_anywhere *)(pair.second + at);
      shorts16 both = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      if (format == F16) weights[i] = __builtin_convertvector((halves16)both, floats);
      else weights[i] = (floats)(__builtin_convertvector(both, words16) << 16);
    }
  } else {
    const int64_t first = format == SCALED8 ? 32 : 64;
    floats scale = format == HALF_SCALED8 && value >= BLOCK_VALUES / 2 ? by.other : by.scale;
    UNROLL for (int i = 0; i < 4; i += 2) {
      int64_t at = first + 8 * (value + i);
      bytes16 a = *(const bytes16 *)(pair.first + at), b = *(const bytes16 *)(pair.second + at);
      weights[i] = __builtin_convertvector((signed16)even_of(a, b), floats);
      weights[i + 1] = __builtin_convertvector((signed16)odd_of(a, b), floats);
    }
    UNROLL for (int i = 0; i < 4; i++)
      weights[i] = format == AFFINE8 ? multiply_add(weights[i], scale, by.other) : weights[i] * scale;
  }
}

/* add_sums for fewer than sixteen columns. */
static __attribute__((noinline)) void add_narrow_sums(int n, const floats *sums, const float *from, float *y, int64_t stride,
                                                      int64_t width) {
  for (int row = 0; row < n; row++)
    for (int64_t i = 0; i < width; i++)
      y[row * stride + i] = (from == 0 ? 0 : from[row * stride + i]) + ((const float *)(sums + row))[i];
}

/* y = from + sums of n rows, in the first `width` of sixteen columns. No rows to add to are 0. */
INLINE void add_sums(const int n, const floats *sums, const float *from, float *y, int64_t stride, int64_t width) {
  if (width != LANES) {
    /* The sums themselves have no address, so that they stay in registers. */
    floats stored[MAX_ROWS];
    UNROLL for (int row = 0; row < n; row++) stored[row] = sums[row];
    add_narrow_sums(n, stored, from, y, stride, width);
    return;
  }
  UNROLL for (int row = 0; row < n; row++)
    store(y + row * stride, (from == 0 ? splat(0) : load(from + row * stride)) + sums[row]);
}

/*
 * Every third row of x has its own pointer, which the compiler must not derive from another one: additions would take as
 * many slots as multiplications.
 */
enum { ROWS_PER_POINTER = 3, MAX_POINTERS = (MAX_ROWS + ROWS_PER_POINTER - 1) / ROWS_PER_POINTER };
INLINE void begin_rows(const int n, const float *x, int64_t stride, const float **pointers) {
  UNROLL for (int row = 0; row < n; row += ROWS_PER_POINTER) pointers[row / ROWS_PER_POINTER] = x + row * stride;
}
INLINE void keep_apart(const int n, const float **pointers) {
  UNROLL for (int row = 0; row < n; row += ROWS_PER_POINTER) __asm__("" : "+r"(pointers[row / ROWS_PER_POINTER]));
}
INLINE void advance(const int n, const float **pointers, int64_t values) {
  UNROLL for (int row = 0; row < n; row += ROWS_PER_POINTER) pointers[row / ROWS_PER_POINTER] += values;
}
INLINE floats value_of(const float **pointers, int row, int64_t stride, int value) {
  return splat(pointers[row / ROWS_PER_POINTER][row % ROWS_PER_POINTER * stride + value]);
}

/* Sums [pairs, n] of n rows over the values of some blocks. A sum waits for its last step, so few rows need more. */
INLINE void multiply_blocks(const int n, const int num_pairs, const enum format format, const struct pair *first,
                            int64_t num_blocks, const float *x, int64_t x_stride, floats *sums) {
  struct pair pairs[MAX_PAIRS];
  UNROLL for (int p = 0; p < num_pairs; p++) pairs[p] = first[p];
  UNROLL for (int i = 0; i < num_pairs * n; i++) sums[i] = splat(0);
  const float *own[MAX_POINTERS];
  begin_rows(n, x, x_stride, own);
  for (int64_t block = 0; block < num_blocks; block++) {
    struct scaling by[MAX_PAIRS];
    UNROLL for (int p = 0; p < num_pairs; p++) by[p] = scaling_of(format, pairs[p]);
    for (int value = 0; value < BLOCK_VALUES; value += 4) {
      keep_apart(n, own);
      UNROLL for (int p = 0; p < num_pairs; p++) {
        floats weights[4];
        expand_four(format, pairs[p], by[p], value, weights);
        UNROLL for (int i = 0; i < 4; i++)
          UNROLL for (int row = 0; row < n; row++)
            sums[p * n + row] = multiply_add(value_of(own, row, x_stride, i), weights[i], sums[p * n + row]);
      }
      advance(n, own, 4);
    }
    UNROLL for (int p = 0; p < num_pairs; p++) {
      pairs[p].first += block_bytes(format);
      pairs[p].second += block_bytes(format);
    }
  }
}

/* The same by weights that were expanded, [values, pairs, 16]. */
INLINE void multiply_expanded(const int n, const int num_pairs, const float *weights, int64_t num_values,
                              const float *x, int64_t x_stride, floats *sums) {
  const float *own[MAX_POINTERS];
  begin_rows(n, x, x_stride, own);
  UNROLL for (int i = 0; i < num_pairs * n; i++) sums[i] = splat(0);
  for (int64_t value = 0; value < num_values; value += 4) {
    keep_apart(n, own);
    UNROLL for (int i = 0; i < 4; i++) {
      floats lanes[PANEL_PAIRS];
      UNROLL for (int p = 0; p < num_pairs; p++) lanes[p] = load(weights + (i * num_pairs + p) * LANES);
      UNROLL for (int row = 0; row < n; row++) {
        floats of_row = value_of(own, row, x_stride, i);
        UNROLL for (int p = 0; p < num_pairs; p++)
          sums[p * n + row] = multiply_add(of_row, lanes[p], sums[p * n + row]);
      }
    }
    advance(n, own, 4);
    weights += 4 * num_pairs * LANES;
  }
}

/* Expands a pair; its vectors are `stride` floats apart. */
INLINE void expand(const enum format format, struct pair pair, int64_t num_blocks, float *to, int64_t stride) {
  for (int64_t block = 0; block < num_blocks; block++) {
    struct scaling by = scaling_of(format, pair);
    for (int value = 0; value < BLOCK_VALUES; value += 4) {
      floats weights[4];
      expand_four(format, pair, by, value, weights);
      UNROLL for (int i = 0; i < 4; i++, to += stride) store(to, weights[i]);
    }
    pair.first += block_bytes(format);
    pair.second += block_bytes(format);
  }
}

/* Rows and their places, for y = sum + x · Wᵀ; no sum is 0. */
struct rows {
  const float *x, *sum;
  float *y;
  int64_t count, x_stride, y_stride, num_values;
};

INLINE const float *shifted(const float *sum, int64_t by) { return sum == 0 ? 0 : sum + by; }

/* Adds the products of so few rows that sums have to wait for themselves, not for weights. */
INLINE void add_few_rows(const enum format format, const int num_pairs, struct pair *pairs, int64_t width, struct rows rows) {
  for (int64_t value = 0; value < rows.num_values; value += SUM_VALUES) {
    int64_t left = rows.num_values - value;
    int64_t num_blocks = (left < SUM_VALUES ? left : SUM_VALUES) / BLOCK_VALUES;
    floats sums[MAX_PAIRS * MAX_ROWS];
    switch (rows.count) {
#define CASE(n)                                                                                          \
  case n:                                                                                                \
    multiply_blocks(n, num_pairs, format, pairs, num_blocks, rows.x + value, rows.x_stride, sums);       \
    UNROLL for (int p = 0; p < num_pairs; p++)                                                           \
      add_sums(n, sums + p * n, shifted(rows.sum, p * LANES), rows.y + p * LANES, rows.y_stride, width); \
    break;
      EACH_COUNT(CASE)
#undef CASE
    }
    rows.sum = rows.y;
    UNROLL for (int p = 0; p < num_pairs; p++) {
      pairs[p].first += num_blocks * block_bytes(format);
      pairs[p].second += num_blocks * block_bytes(format);
    }
  }
}

/* Weights of some panels and values, [panels, values, pairs, 16]. */
struct panels {
  const float *weights;
  int64_t count, num_values;
};

/* Adds the products of rows by the values that `panels` has. Places are those of the first value and column. */
INLINE void add_panels(const int num_pairs, struct panels panels, int64_t width, struct rows rows) {
  for (int64_t row = 0; row < rows.count;) {
    int64_t rest = rows.count - row, calls = (rest + MAX_ROWS - 1) / MAX_ROWS, count = (rest + calls - 1) / calls;
    const float *x = rows.x + row * rows.x_stride, *weights = panels.weights;
    const float *sum = shifted(rows.sum, row * rows.y_stride);
    float *y = rows.y + row * rows.y_stride;
    for (int64_t panel = 0; panel < panels.count; panel++) {
      floats sums[MAX_ROWS * PANEL_PAIRS];
      switch (count) {
#define CASE(n)                                                                           \
  case n:                                                                                 \
    multiply_expanded(n, num_pairs, weights, panels.num_values, x, rows.x_stride, sums);  \
    UNROLL for (int p = 0; p < num_pairs; p++)                                            \
      add_sums(n, sums + p * n, shifted(sum, p * LANES), y + p * LANES, rows.y_stride, width);  \
    break;
        EACH_COUNT(CASE)
#undef CASE
      }
      sum = shifted(sum, num_pairs * LANES);
      y += num_pairs * LANES;
      weights += num_pairs * LANES * panels.num_values;
    }
    row += count;
  }
}
/* One copy for all formats. */
static __attribute__((noinline)) void add_wide_panels(const struct panels *panels, const struct rows *rows) {
  add_panels(PANEL_PAIRS, *panels, LANES, *rows);
}
static __attribute__((noinline)) void add_narrow_panel(const struct panels *panels, int64_t width, const struct rows *rows) {
  add_panels(1, *panels, width, *rows);
}

/* Adds the products of rows by pairs of groups, `num_pairs` a panel, whose weights are expanded once. */
INLINE void add_rows(const enum format format, const int num_pairs, int64_t num_panels, struct pair *pairs, int64_t width,
                     struct rows rows) {
  float weights[SUM_VALUES * LANES * PANEL_PAIRS * MAX_PANELS] __attribute__((aligned(64)));
  while (rows.num_values > 0) {
    int64_t num_values = rows.num_values < SUM_VALUES ? rows.num_values : SUM_VALUES, num_blocks = num_values / BLOCK_VALUES;
    for (int64_t i = 0; i < num_panels * num_pairs; i++) {
      int64_t panel = i / num_pairs, pair = i % num_pairs;
      expand(format, pairs[i], num_blocks, weights + (panel * num_values * num_pairs + pair) * LANES, num_pairs * LANES);
      pairs[i].first += num_blocks * block_bytes(format);
      pairs[i].second += num_blocks * block_bytes(format);
    }
    struct panels panels = {weights, num_panels, num_values};
    if (num_pairs == PANEL_PAIRS && width == LANES) add_wide_panels(&panels, &rows);
    else add_narrow_panel(&panels, width, &rows);
    rows.sum = rows.y;
    rows.x += num_values;
    rows.num_values -= num_values;
  }
}

/* The last group may have fewer than eight columns. */
INLINE void add_columns(const enum format format, const uint8_t *weights, int64_t num_columns, struct rows rows) {
  const int64_t group_bytes = rows.num_values / BLOCK_VALUES * block_bytes(format), most_pairs = PANEL_PAIRS * MAX_PANELS;
  for (int64_t column = 0; column < num_columns;) {
    int64_t left = num_columns - column, num_whole = left / LANES < most_pairs ? left / LANES : most_pairs;
    struct pair pairs[PANEL_PAIRS * MAX_PANELS];
    const uint8_t *at = weights + column / GROUP_ROWS * group_bytes;
    for (int64_t p = 0; p < num_whole; p++, at += 2 * group_bytes) pairs[p] = (struct pair){at, at + group_bytes};
    if (num_whole == 0) pairs[0] = (struct pair){at, left > GROUP_ROWS ? at + group_bytes : at};
    struct rows columns = rows;
    columns.sum = shifted(rows.sum, column);
    columns.y += column;
    int64_t done = 1, width = left < LANES ? left : LANES;
    if (rows.count <= MAX_ROWS_OF_TWO_PAIRS && num_whole >= MAX_PAIRS) {
      done = MAX_PAIRS;
      add_few_rows(format, MAX_PAIRS, pairs, LANES, columns);
    } else if (rows.count > MAX_ROWS && num_whole >= PANEL_PAIRS) {
      done = num_whole / PANEL_PAIRS * PANEL_PAIRS;
      add_rows(format, PANEL_PAIRS, done / PANEL_PAIRS, pairs, LANES, columns);
    } else if (rows.count <= MAX_ROWS) add_few_rows(format, 1, pairs, width, columns);
    else add_rows(format, 1, 1, pairs, width, columns);
    column += done * LANES;
  }
}

/* A unit of weight rows, which are columns of y. */
void EXPORTED(add_product)(char *memory, const struct product *product, int32_t unit) {
  int64_t first = unit * (int64_t)product->columns_per_unit;
  int64_t num_columns = (int64_t)product->num_columns - first;
  if (num_columns > (int64_t)product->columns_per_unit) num_columns = (int64_t)product->columns_per_unit;
  struct rows rows = {
    .x = (const float *)(memory + (int64_t)product->x),
    .sum = product->sum != product->sum ? 0 : (const float *)(memory + (int64_t)product->sum) + first,
    .y = (float *)(memory + (int64_t)product->y) + first,
    .count = (int64_t)product->num_rows,
    .x_stride = (int64_t)product->x_row_bytes / 4,
    .y_stride = (int64_t)product->y_row_bytes / 4,
    .num_values = (int64_t)product->x_row_bytes / 4,
  };
  int64_t blocks = first / GROUP_ROWS * (rows.num_values / BLOCK_VALUES);
  const uint8_t *weights = (const uint8_t *)memory + (int64_t)product->weights;
  switch ((enum format)product->format) {
#define CASE(format) \
  case format: add_columns(format, weights + blocks * block_bytes(format), num_columns, rows); break;
    CASE(AFFINE4) CASE(SCALED8) CASE(AFFINE8) CASE(HALF_SCALED8) CASE(BF16) CASE(F16) CASE(F32)
#undef CASE
  }
}
