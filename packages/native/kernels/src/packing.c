/*
 * Rows of a stored matrix in the formats of packages/decoder/src/packed/weight-formats.ts, with the bytes of its twin,
 * pack-rows.ts. Types have ggml's numbers and are expanded as in dequantize_row_TYPE of ggml-quants.c.
 */
#include <stdint.h>
#include <string.h>

enum { GROUP_ROWS = 8, BLOCK_VALUES = 32, SUPER_VALUES = 256 };

/* 32 values of each of eight rows, and the numbers that turn them into weights. */
struct group {
  int8_t values[GROUP_ROWS][BLOCK_VALUES];
  float scales[GROUP_ROWS], others[GROUP_ROWS];
};

/* By a multiplication, which also gives subnormal numbers: this file is compiled for every processor. */
static float half(const uint8_t *at) {
  uint16_t bits;
  memcpy(&bits, at, sizeof bits);
  uint32_t magnitude = (uint32_t)(bits & 0x7fff) << 13, is_finite = (bits & 0x7c00) != 0x7c00;
  float value;
  memcpy(&value, &magnitude, sizeof value);
  value = is_finite ? value * 0x1p112f : (bits & 0x3ff) != 0 ? __builtin_nanf("") : __builtin_inff();
  return bits >> 15 ? -value : value;
}

/* Byte i holds values i and i + 16. */
static void read_fours(const uint8_t *at, int8_t *values) {
  for (int i = 0; i < 16; i++) {
    values[i] = at[i] & 15;
    values[16 + i] = at[i] >> 4;
  }
}

/* The same after 32 fifth bits. */
static void read_fives(const uint8_t *at, int offset, int8_t *values) {
  uint32_t fifths;
  memcpy(&fifths, at, sizeof fifths);
  read_fours(at + 4, values);
  for (int i = 0; i < BLOCK_VALUES; i++) values[i] = (int8_t)((values[i] | (fifths >> i & 1) << 4) + offset);
}

/* Scale and offset of 32 values of a block of 256: six bits each, times a scale of the block. */
static void read_super_scale(const uint8_t *at, int part, int row, struct group *into) {
  const uint8_t *bits = at + 4;
  int scale = part < 4 ? bits[part] & 63 : (bits[part + 4] & 15) | (bits[part - 4] >> 6) << 4;
  int minimum = part < 4 ? bits[part + 4] & 63 : bits[part + 4] >> 4 | (bits[part] >> 6) << 4;
  into->scales[row] = half(at) * (float)scale;
  into->others[row] = -half(at + 2) * (float)minimum;
}

enum format { AFFINE4, EIGHT_BITS };

struct type {
  int32_t id, block_values, block_bytes;
  enum format format;
  /* Two numbers a row instead of one. */
  int has_others;
  void (*read)(const uint8_t *at, int part, int row, struct group *into);
};

static void read_q4_0(const uint8_t *at, int part, int row, struct group *into) {
  (void)part;
  into->scales[row] = half(at);
  into->others[row] = -8 * half(at);
  read_fours(at + 2, into->values[row]);
}
static void read_q4_1(const uint8_t *at, int part, int row, struct group *into) {
  (void)part;
  into->scales[row] = half(at);
  into->others[row] = half(at + 2);
  read_fours(at + 4, into->values[row]);
}
static void read_q5_0(const uint8_t *at, int part, int row, struct group *into) {
  (void)part;
  into->scales[row] = half(at);
  read_fives(at + 2, -16, into->values[row]);
}
static void read_q5_1(const uint8_t *at, int part, int row, struct group *into) {
  (void)part;
  into->scales[row] = half(at);
  into->others[row] = half(at + 2);
  read_fives(at + 4, 0, into->values[row]);
}
static void read_q8_0(const uint8_t *at, int part, int row, struct group *into) {
  (void)part;
  into->scales[row] = half(at);
  memcpy(into->values[row], at + 2, BLOCK_VALUES);
}
static void read_q4_K(const uint8_t *at, int part, int row, struct group *into) {
  read_super_scale(at, part, row, into);
  const uint8_t *from = at + 16 + 32 * (part >> 1);
  for (int i = 0; i < BLOCK_VALUES; i++) into->values[row][i] = from[i] >> 4 * (part & 1) & 15;
}
static void read_q5_K(const uint8_t *at, int part, int row, struct group *into) {
  read_super_scale(at, part, row, into);
  const uint8_t *from = at + 48 + 32 * (part >> 1);
  for (int i = 0; i < BLOCK_VALUES; i++)
    into->values[row][i] = (int8_t)((from[i] >> 4 * (part & 1) & 15) | (at[16 + i] >> part & 1) << 4);
}
static void read_q6_K(const uint8_t *at, int part, int row, struct group *into) {
  const int8_t *scales = (const int8_t *)at + 192 + 2 * part;
  into->scales[row] = half(at + 208) * (float)scales[0];
  into->others[row] = half(at + 208) * (float)scales[1];
  const uint8_t *low = at + 64 * (part >> 2) + 32 * (part & 1), *high = at + 128 + 32 * (part >> 2);
  for (int i = 0; i < BLOCK_VALUES; i++) {
    int four = low[i] >> 4 * (part >> 1 & 1) & 15, two = high[i] >> 2 * (part & 3) & 3;
    into->values[row][i] = (int8_t)((four | two << 4) - 32);
  }
}

static const struct type TYPES[] = {
  {2, BLOCK_VALUES, 18, AFFINE4, 1, read_q4_0},     {3, BLOCK_VALUES, 20, AFFINE4, 1, read_q4_1},
  {6, BLOCK_VALUES, 22, EIGHT_BITS, 0, read_q5_0},  {7, BLOCK_VALUES, 24, EIGHT_BITS, 1, read_q5_1},
  {8, BLOCK_VALUES, 34, EIGHT_BITS, 0, read_q8_0},  {12, SUPER_VALUES, 144, AFFINE4, 1, read_q4_K},
  {13, SUPER_VALUES, 176, EIGHT_BITS, 1, read_q5_K}, {14, SUPER_VALUES, 210, EIGHT_BITS, 1, read_q6_K},
};

/* Vectors of four values of eight rows: the first two in the low halves of bytes, the others in the high ones. */
static uint8_t *write_fours(const struct group *group, uint8_t *to) {
  for (int value = 0; value < BLOCK_VALUES; value += 4)
    for (int odd = 0; odd < 2; odd++)
      for (int row = 0; row < GROUP_ROWS; row++)
        *to++ = (uint8_t)(group->values[row][value + odd] | group->values[row][value + odd + 2] << 4);
  return to;
}
static uint8_t *write_eights(const struct group *group, uint8_t *to) {
  for (int value = 0; value < BLOCK_VALUES; value++)
    for (int row = 0; row < GROUP_ROWS; row++) *to++ = (uint8_t)group->values[row][value];
  return to;
}

static void pack_blocks(const struct type *type, const uint8_t *raw, const uint32_t *order, int64_t num_rows,
                        int64_t num_columns, uint8_t *to) {
  int64_t row_bytes = num_columns / type->block_values * type->block_bytes, parts = type->block_values / BLOCK_VALUES;
  for (int64_t first = 0; first < num_rows; first += GROUP_ROWS) {
    for (int64_t block = 0; block < num_columns / BLOCK_VALUES; block++) {
      struct group group;
      for (int row = 0; row < GROUP_ROWS; row++) {
        const uint8_t *at = raw + order[first + row] * row_bytes + block / parts * type->block_bytes;
        type->read(at, (int)(block % parts), row, &group);
      }
      memcpy(to, group.scales, sizeof group.scales);
      to += sizeof group.scales;
      if (type->has_others) {
        memcpy(to, group.others, sizeof group.others);
        to += sizeof group.others;
      }
      to = type->format == AFFINE4 ? write_fours(&group, to) : write_eights(&group, to);
    }
  }
}

/* Values of `size` bytes, of eight rows in turn. */
static void pack_plain(int64_t size, const uint8_t *raw, const uint32_t *order, int64_t num_rows, int64_t num_columns,
                       uint8_t *to) {
  for (int64_t first = 0; first < num_rows; first += GROUP_ROWS)
    for (int64_t value = 0; value < num_columns; value++)
      for (int row = 0; row < GROUP_ROWS; row++, to += size)
        memcpy(to, raw + (order[first + row] * num_columns + value) * size, (size_t)size);
}

/* Packs rows of a type in an order; the types are those of pack-rows.ts. */
__attribute__((visibility("default"))) void pack_rows(int32_t type, const uint8_t *raw, const uint32_t *order,
                                                      int64_t num_rows, int64_t num_columns, uint8_t *to) {
  for (uint64_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
    if (TYPES[i].id == type) return pack_blocks(&TYPES[i], raw, order, num_rows, num_columns, to);
  if (type == 0) pack_plain(4, raw, order, num_rows, num_columns, to);
  else pack_plain(2, raw, order, num_rows, num_columns, to);
}
