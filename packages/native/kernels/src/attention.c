/*
 * Attention over pages, with the bits of packages/decoder/src/attention/tile-attention.ts. Every score, sum and
 * weight is one chain of operations of a lane, in the same order there and here; only how many lanes and chains a
 * processor computes at a time differs.
 */
#include "vectors.h"

enum {
  PAGE_TOKENS = 16,
  TILE_QUERIES = 24,
  PAGE_SCORES = TILE_QUERIES * PAGE_TOKENS,
  /* Pages that stay in the first-level cache while several calls read them. */
  PAGES_AT_ONCE = 4,
};

/* Vectors of sums that registers hold together, and queries that read a key together. */
#if defined(__AVX512F__)
enum { MAX_SUMS = 24, MAX_QUERIES = 12 };
#else
enum { MAX_SUMS = 6, MAX_QUERIES = 6 };
#endif

/* Written by attention-kernels.ts, field by field. Places are bytes from `memory`. */
struct plan {
  char *memory;
  int64_t q, o;
  /* [rows] int32: address of a row's page table, keys that it sees. */
  int64_t tables, num_keys;
  /* [tiles] int32 */
  int64_t first_rows, end_rows, shared_pages;
  /* [heads] scores of sinks; -infinity: none. */
  int64_t sinks;
  /* This thread's. [TILE_QUERIES, D] each; [TILE_QUERIES]; [pages, TILE_QUERIES, 16]. */
  int64_t queries, part, sums, weights, scores;
  int64_t num_heads, num_kv_heads, head_size;
  /* Pages whose values are summed separately. */
  int64_t part_pages;
};

/* Query heads of one key head that one call computes. */
struct heads {
  const struct plan *plan;
  /* Places to which a page's offset is added for its keys [D, 16] and its values [16, D]. */
  uint32_t keys, values;
  int64_t head, count, head_size;
};

struct pages {
  const uint32_t *table;
  int64_t from, end;
};

/* Keys or values of one head in some pages. */
struct store {
  const char *memory;
  uint32_t place;
  struct pages pages;
};

INLINE float *floats_at(const struct plan *plan, int64_t place) { return (float *)(plan->memory + place); }
INLINE int32_t integer_at(const struct plan *plan, int64_t place, int64_t index) {
  return ((const int32_t *)(plan->memory + place))[index];
}
INLINE int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }

/* Queries for the next call, so that all calls of a step take about the same number. */
INLINE int64_t next_count(int64_t remaining) {
  int64_t calls = (remaining + MAX_QUERIES - 1) / MAX_QUERIES;
  return (remaining + calls - 1) / calls;
}

INLINE const float *page_of(const struct store *store, int64_t page) {
  uint32_t place = store->place + store->pages.table[page];
  return (const float *)(store->memory + place);
}
/* The page after one, to read ahead; the last is its own. */
INLINE const float *page_after(const struct store *store, int64_t page) {
  return page_of(store, lesser(page + 1, store->pages.end - 1));
}

/* Scores of n queries [n, D] and some keys. */
INLINE void scores_of(const int n, const float *queries, const struct store *keys, int64_t d_end, float *scores) {
  for (int64_t page = keys->pages.from; page < keys->pages.end; page++, scores += PAGE_SCORES) {
    const float *key = page_of(keys, page), *next = page_after(keys, page);
    floats sums[MAX_QUERIES];
    UNROLL for (int i = 0; i < n; i++) sums[i] = splat(0);
    for (int64_t d = 0; d < d_end; d++) {
      __builtin_prefetch(next + d * LANES);
      floats lanes = load(key + d * LANES);
      UNROLL for (int i = 0; i < n; i++) sums[i] = multiply_add(splat(queries[i * d_end + d]), lanes, sums[i]);
    }
    UNROLL for (int i = 0; i < n; i++) store(scores + i * PAGE_TOKENS, sums[i]);
  }
}

/* Adds score · value over the first `num_keys` of each page to n queries' sums [n, D], c vectors of D at a time. */
INLINE void add_values(const int n, const int c, float *sums, const struct store *values, const float *scores,
                       int64_t d_end, int64_t num_keys) {
  for (int64_t d = 0; d < d_end; d += c * LANES) {
    floats totals[MAX_QUERIES][4];
    UNROLL for (int i = 0; i < n; i++)
      UNROLL for (int v = 0; v < c; v++) totals[i][v] = load(sums + i * d_end + d + v * LANES);
    const float *score = scores;
    for (int64_t page = values->pages.from; page < values->pages.end; page++, score += PAGE_SCORES) {
      const float *value = page_of(values, page) + d, *next = page_after(values, page) + d;
      for (int64_t key = 0; key < num_keys; key++, value += d_end, next += d_end) {
        floats lanes[4];
        UNROLL for (int v = 0; v < c; v++) __builtin_prefetch(next + v * LANES);
        UNROLL for (int v = 0; v < c; v++) lanes[v] = load(value + v * LANES);
        UNROLL for (int i = 0; i < n; i++) {
          floats weight = splat(score[i * PAGE_TOKENS + key]);
          UNROLL for (int v = 0; v < c; v++) totals[i][v] = multiply_add(weight, lanes[v], totals[i][v]);
        }
      }
    }
    UNROLL for (int i = 0; i < n; i++)
      UNROLL for (int v = 0; v < c; v++) store(sums + i * d_end + d + v * LANES, totals[i][v]);
  }
}

/* Vectors of D at a time: a divisor, few enough for the registers. */
INLINE void add_values_of(const int n, float *sums, const struct store *values, const float *scores, int64_t d_end,
                          int64_t num_keys) {
  if (4 * n <= MAX_SUMS && d_end % (4 * LANES) == 0) add_values(n, 4, sums, values, scores, d_end, num_keys);
  else if (2 * n <= MAX_SUMS && d_end % (2 * LANES) == 0) add_values(n, 2, sums, values, scores, d_end, num_keys);
  else add_values(n, 1, sums, values, scores, d_end, num_keys);
}

#define EACH_COUNT(CASE) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#if defined(__AVX512F__)
#define EACH_LARGE_COUNT(CASE) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
#else
#define EACH_LARGE_COUNT(CASE)
#endif

static void scores_of_pages(const struct heads *heads, int64_t query, int64_t num_queries, struct pages pages) {
  const struct plan *plan = heads->plan;
  int64_t d_end = heads->head_size;
  for (int64_t from = pages.from; from < pages.end; from += PAGES_AT_ONCE) {
    struct store keys = {plan->memory, heads->keys, {pages.table, from, lesser(pages.end, from + PAGES_AT_ONCE)}};
    for (int64_t at = query; at < query + num_queries;) {
      int64_t count = next_count(query + num_queries - at);
      const float *queries = floats_at(plan, plan->queries) + at * d_end;
      float *scores = floats_at(plan, plan->scores) + from * PAGE_SCORES + at * PAGE_TOKENS;
      switch (count) {
#define CASE(n) case n: scores_of(n, queries, &keys, d_end, scores); break;
        EACH_COUNT(CASE) EACH_LARGE_COUNT(CASE)
#undef CASE
      }
      at += count;
    }
  }
}

/* Adds values of pages that are of one part. */
static void values_of_pages(const struct heads *heads, int64_t query, int64_t num_queries, struct pages pages,
                            int64_t num_keys) {
  const struct plan *plan = heads->plan;
  int64_t d_end = heads->head_size;
  for (int64_t from = pages.from; from < pages.end; from += PAGES_AT_ONCE) {
    struct store values = {plan->memory, heads->values, {pages.table, from, lesser(pages.end, from + PAGES_AT_ONCE)}};
    for (int64_t at = query; at < query + num_queries;) {
      int64_t count = next_count(query + num_queries - at);
      float *sums = floats_at(plan, plan->part) + at * d_end;
      const float *scores = floats_at(plan, plan->scores) + from * PAGE_SCORES + at * PAGE_TOKENS;
      switch (count) {
#define CASE(n) case n: add_values_of(n, sums, &values, scores, d_end, num_keys); break;
        EACH_COUNT(CASE) EACH_LARGE_COUNT(CASE)
#undef CASE
      }
      at += count;
    }
  }
}

/* Adds the current part to the sums of earlier ones and clears it. */
static void add_part(const struct heads *heads, int64_t query, int64_t num_queries) {
  const struct plan *plan = heads->plan;
  float *part = floats_at(plan, plan->part), *sums = floats_at(plan, plan->sums);
  int64_t end = (query + num_queries) * heads->head_size;
  for (int64_t i = query * heads->head_size; i < end; i += LANES) {
    store(sums + i, load(sums + i) + load(part + i));
    store(part + i, splat(0));
  }
}

static void values_of_full_pages(const struct heads *heads, int64_t query, int64_t num_queries, struct pages pages) {
  int64_t part_pages = heads->plan->part_pages;
  for (int64_t page = pages.from; page < pages.end;) {
    int64_t part_end = (page / part_pages + 1) * part_pages;
    int64_t next = lesser(pages.end, part_end);
    values_of_pages(heads, query, num_queries, (struct pages){pages.table, page, next}, PAGE_TOKENS);
    if (next == part_end) add_part(heads, query, num_queries);
    page = next;
  }
}

/*
 * Turns the scores of one query in pages [from, end) into weights, not yet divided by their sum. The sink belongs to
 * the sum and has no weight. @returns 1 / sum
 */
static float soften(float *scores, int64_t from, int64_t end, float sink) {
  floats most = splat(sink);
  for (int64_t page = from; page < end; page++) most = greater_of(most, load(scores + page * PAGE_SCORES));
  float maximum = most[0];
  UNROLL for (int i = 1; i < LANES; i++) maximum = most[i] > maximum ? most[i] : maximum;
  floats4 total = (floats4)0.0f;
  for (int64_t page = from; page < end; page++) {
    floats weights = exponential(load(scores + page * PAGE_SCORES) - splat(maximum));
    store(scores + page * PAGE_SCORES, weights);
    total = sum_of_quarters(weights) + total;
  }
  floats own = exponential(splat(sink) - splat(maximum));
  return 1.0f / (((total[0] + total[1]) + (total[2] + total[3])) + own[0]);
}

/* Hides keys of a page from some queries. */
INLINE void hide(float *page, int64_t num_queries, int64_t first_key, int64_t end_key) {
  for (int64_t i = 0; i < num_queries; i++)
    for (int64_t key = first_key; key < end_key; key++) page[i * PAGE_TOKENS + key] = -__builtin_inff();
}

/*
 * Outputs of rows `first` to `end` for some query heads.
 * shared: leading full pages that all rows see. first_key: that they see, 0 if they share pages.
 */
static void attend_heads(const struct heads *heads, int64_t first, int64_t end, int64_t shared, int64_t first_key) {
  const struct plan *plan = heads->plan;
  int64_t count = heads->count, d_end = heads->head_size, width = count * d_end;
  int64_t num_queries = (end - first) * count;
  float *queries = floats_at(plan, plan->queries), *scores = floats_at(plan, plan->scores);
  float *part = floats_at(plan, plan->part), *sums = floats_at(plan, plan->sums);
  float *weights = floats_at(plan, plan->weights);
  floats factor = splat((float)(1.0 / __builtin_sqrt((double)d_end)));
  for (int64_t row = first; row < end; row++) {
    const float *q = floats_at(plan, plan->q) + (row * plan->num_heads + heads->head) * d_end;
    for (int64_t i = 0; i < width; i += LANES) store(queries + (row - first) * width + i, load(q + i) * factor);
  }
  int64_t first_page = first_key / PAGE_TOKENS;
  int64_t own_first = greater(shared, first_page);
#define TABLE(row) ((const uint32_t *)(plan->memory + (uint32_t)integer_at(plan, plan->tables, row)))
  struct pages shared_pages = {TABLE(first), 0, shared};
  scores_of_pages(heads, 0, num_queries, shared_pages);
  for (int64_t row = first, query = 0; row < end; row++, query += count) {
    int64_t num_keys = integer_at(plan, plan->num_keys, row);
    int64_t num_pages = (num_keys + PAGE_TOKENS - 1) / PAGE_TOKENS;
    scores_of_pages(heads, query, count, (struct pages){TABLE(row), own_first, num_pages});
    float *own = scores + query * PAGE_TOKENS;
    if (num_keys % PAGE_TOKENS > 0)
      hide(own + (num_pages - 1) * PAGE_SCORES, count, num_keys % PAGE_TOKENS, PAGE_TOKENS);
    hide(own + first_page * PAGE_SCORES, count, 0, first_key % PAGE_TOKENS);
    const float *sinks = floats_at(plan, plan->sinks) + heads->head;
    for (int64_t i = 0; i < count; i++)
      weights[query + i] = soften(own + i * PAGE_TOKENS, first_page, num_pages, sinks[i]);
  }
  for (int64_t i = 0; i < num_queries * d_end; i += LANES) {
    store(part + i, splat(0));
    /* -0 plus any number is that number, -0 included. */
    store(sums + i, splat(-0.0f));
  }
  values_of_full_pages(heads, 0, num_queries, shared_pages);
  for (int64_t row = first, query = 0; row < end; row++, query += count) {
    int64_t num_keys = integer_at(plan, plan->num_keys, row), num_full = num_keys / PAGE_TOKENS;
    int64_t num_last = num_keys % PAGE_TOKENS;
    values_of_full_pages(heads, query, count, (struct pages){TABLE(row), own_first, num_full});
    /* No values after the last key: a former owner may have left NaN there, and 0 times NaN is NaN. */
    if (num_last > 0) values_of_pages(heads, query, count, (struct pages){TABLE(row), num_full, num_full + 1}, num_last);
    if (num_last > 0 || num_full % plan->part_pages > 0) add_part(heads, query, count);
    float *o = floats_at(plan, plan->o) + (row * plan->num_heads + heads->head) * d_end;
    for (int64_t i = 0; i < width; i += LANES)
      store(o + i, load(sums + query * d_end + i) * splat(weights[query + i / d_end]));
  }
#undef TABLE
}

/* Places of a key head's keys and values: as `keys` and `values` of heads. */
static void attend(const struct plan *plan, uint32_t keys, uint32_t values, int64_t kv_head, const int64_t rows[4]) {
  int64_t group = plan->num_heads / plan->num_kv_heads, at_once = lesser(TILE_QUERIES, group);
  for (int64_t head = 0; head < group; head += at_once) {
    int64_t count = lesser(at_once, group - head);
    struct heads heads = {plan, keys, values, kv_head * group + head, count, plan->head_size};
    attend_heads(&heads, rows[0], rows[1], rows[2], rows[3]);
  }
}

#define HEAD const struct plan *plan, uint32_t keys, uint32_t values, int32_t kv_head

void EXPORTED(attend_tiles)(HEAD, int32_t first, int32_t end) {
  for (int64_t tile = first; tile < end; tile++) {
    int64_t rows[] = {
      integer_at(plan, plan->first_rows, tile), integer_at(plan, plan->end_rows, tile),
      integer_at(plan, plan->shared_pages, tile), 0,
    };
    attend(plan, keys, values, kv_head, rows);
  }
}

/* Rows one by one, each over its last `window` keys. */
void EXPORTED(attend_window)(HEAD, int32_t first, int32_t end, int32_t window) {
  for (int64_t row = first; row < end; row++) {
    int64_t rows[] = {row, row + 1, 0, greater(0, integer_at(plan, plan->num_keys, row) - (int64_t)window)};
    attend(plan, keys, values, kv_head, rows);
  }
}

/* Rows that see `shared` leading full pages together, at most as many as a tile holds. */
void EXPORTED(attend_rows)(HEAD, int32_t first, int32_t end, int32_t shared) {
  int64_t rows[] = {first, end, shared, 0};
  attend(plan, keys, values, kv_head, rows);
}
