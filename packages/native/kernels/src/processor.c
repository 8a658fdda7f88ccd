/* Instruction sets of this processor that the kernels are compiled for. */
#include <stdint.h>

enum { AVX2 = 1, AVX512 = 2, NEON = 4 };

#if defined(__x86_64__)
#include <cpuid.h>

/* State that the system saves when it changes threads: bits 1, 2 for AVX, also 5 to 7 for AVX-512. */
static uint64_t saved_state(void) {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

__attribute__((visibility("default"))) int32_t instruction_sets(void) {
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
  const uint32_t fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29;
  if ((c & (fma | osxsave | avx | f16c)) != (fma | osxsave | avx | f16c)) return 0;
  uint64_t saved = saved_state();
  if ((saved & 0x06) != 0x06 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
  const uint32_t avx2 = 1u << 5 | 1u << 3 | 1u << 8; /* with bmi1 and bmi2 */
  const uint32_t avx512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31; /* f, dq, cd, bw, vl */
  if ((b & avx2) != avx2) return 0;
  return (b & avx512) == avx512 && (saved & 0xe6) == 0xe6 ? AVX2 | AVX512 : AVX2;
}
#else
/* Every processor of 64-bit ARM has NEON. */
__attribute__((visibility("default"))) int32_t instruction_sets(void) { return NEON; }
#endif
