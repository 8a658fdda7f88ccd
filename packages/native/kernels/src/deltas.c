/*
 * States of gated delta nets, with the steps of packages/transformer/src/model/gated-delta-net.ts and of
 * packages/trainer/src/delta-net/delta-gradient.ts: numbers of a token are float64, states [keys, values] float32.
 */
#include "vectors.h"

typedef double doubles __attribute__((ext_vector_type(8)));
typedef doubles doubles_anywhere __attribute__((aligned(8)));

enum { WIDTH = 8, BLOCK = 4 };

INLINE doubles splat8(double value) { return (doubles)value; }
INLINE doubles load8(const double *from) { return *(const doubles_anywhere *)from; }
INLINE void store8(double *to, doubles value) { *(doubles_anywhere *)to = value; }
typedef floats8 floats8_unaligned __attribute__((aligned(4)));
INLINE doubles widened(const float *from) { return __builtin_convertvector(*(const floats8_unaligned *)from, doubles); }
INLINE void store_narrow(float *to, doubles value) {
  *(floats8_unaligned *)to = __builtin_convertvector(value, floats8);
}
INLINE double sum_of(doubles x) { return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7])); }

/* Sizes of a head, and α and β of a token. */
struct delta_token {
  double key_size, value_size, alpha, beta;
};

/*
 * Advances a state by a token. Sums have the order of the loops in TypeScript, and so their bits.
 *
 * from: state before the token, or null for 0. to: state after it, may be `from`. keys: q, then k. values: of v, then
 * for the results of Sᵀk, β (v - Sᵀk) and Sᵀq.
 */
void EXPORTED(advance_delta)(const struct delta_token *token, const float *from, float *to, const double *keys,
                             double *values) {
  const int64_t num_keys = (int64_t)token->key_size, num_values = (int64_t)token->value_size;
  const doubles alpha = splat8(token->alpha), beta = splat8(token->beta);
  const double *q = keys, *k = keys + num_keys;
  for (int64_t first = 0; first < num_values; first += WIDTH * BLOCK) {
    const int64_t left = (num_values - first) / WIDTH, count = left < BLOCK ? left : BLOCK;
    doubles memory[BLOCK], delta[BLOCK], out[BLOCK];
    UNROLL for (int i = 0; i < BLOCK; i++) memory[i] = out[i] = delta[i] = splat8(0);
    if (from != 0)
      for (int64_t row = 0; row < num_keys; row++) {
        const doubles factor = splat8(token->alpha * k[row]);
        const float *state = from + row * num_values + first;
        for (int64_t i = 0; i < count; i++) memory[i] = memory[i] + factor * widened(state + i * WIDTH);
      }
    double *own = values + first;
    for (int64_t i = 0; i < count; i++) {
      delta[i] = beta * (load8(own + i * WIDTH) - memory[i]);
      store8(own + num_values + i * WIDTH, memory[i]);
      store8(own + 2 * num_values + i * WIDTH, delta[i]);
    }
    for (int64_t row = 0; row < num_keys; row++) {
      const doubles key = splat8(k[row]), query = splat8(q[row]);
      const int64_t at = row * num_values + first;
      for (int64_t i = 0; i < count; i++) {
        doubles old = from == 0 ? splat8(0) : alpha * widened(from + at + i * WIDTH);
        doubles state = old + key * delta[i];
        store_narrow(to + at + i * WIDTH, state);
        out[i] = out[i] + query * state;
      }
    }
    for (int64_t i = 0; i < count; i++) store8(own + 3 * num_values + i * WIDTH, out[i]);
  }
}

/*
 * Gradient of a token. Sums of a row have eight lanes, which TypeScript adds in another order.
 *
 * keys, values: as advance_delta left them. before: state before the token, or null for 0; after: the one after it.
 * d_out: ∂o. d_state: ∂state after the token, which becomes ∂state before it. d_keys: ∂q, then ∂k, which are added to.
 * d_values: written, ∂v, then room for as many numbers, then ∂α and ∂β.
 */
void EXPORTED(add_delta_gradient)(const struct delta_token *token, const double *keys, const double *values,
                                  const float *before, const float *after, const double *d_out_of, float *d_state_of,
                                  double *d_keys, double *d_values) {
  const int64_t num_keys = (int64_t)token->key_size, num_values = (int64_t)token->value_size;
  const doubles alpha = splat8(token->alpha), beta = splat8(token->beta);
  const double *q = keys, *k = keys + num_keys;
  const double *value = values, *memory = value + num_values, *delta = value + 2 * num_values;
  double *d_value = d_values, *d_delta = d_values + num_values;
  for (int64_t i = 0; i < num_values; i += WIDTH) store8(d_delta + i, splat8(0));
  for (int64_t row = 0; row < num_keys; row++) {
    const doubles query = splat8(q[row]), key = splat8(k[row]);
    const int64_t at = row * num_values;
    doubles d_query = splat8(0), d_key = splat8(0);
    for (int64_t i = 0; i < num_values; i += WIDTH) {
      const doubles d_out = load8(d_out_of + i);
      const doubles d_state = widened(d_state_of + at + i) + query * d_out;
      store_narrow(d_state_of + at + i, d_state);
      d_query = d_query + widened(after + at + i) * d_out;
      d_key = d_key + d_state * load8(delta + i);
      store8(d_delta + i, load8(d_delta + i) + key * d_state);
    }
    d_keys[row] += sum_of(d_query);
    d_keys[num_keys + row] += sum_of(d_key);
  }
  doubles d_beta = splat8(0), d_alpha = splat8(0);
  for (int64_t i = 0; i < num_values; i += WIDTH) {
    const doubles d = load8(d_delta + i);
    d_beta = d_beta + d * (load8(value + i) - load8(memory + i));
    store8(d_value + i, beta * d);
  }
  for (int64_t row = 0; row < num_keys; row++) {
    const doubles key = splat8(k[row]);
    const int64_t at = row * num_values;
    doubles d_key = splat8(0);
    for (int64_t i = 0; i < num_values; i += WIDTH) {
      const doubles state = before == 0 ? splat8(0) : widened(before + at + i), d = load8(d_value + i);
      const doubles d_state = widened(d_state_of + at + i) - key * d;
      d_key = d_key - alpha * state * d;
      d_alpha = d_alpha + d_state * state;
      store_narrow(d_state_of + at + i, alpha * d_state);
    }
    d_keys[num_keys + row] += sum_of(d_key);
  }
  d_values[2 * num_values] = sum_of(d_alpha);
  d_values[2 * num_values + 1] = sum_of(d_beta);
}
