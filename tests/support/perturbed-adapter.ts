import type { LoraParameters } from '@trainyard/trainer';

const B_SCALE = 0.02;

/**
 * Sets a fresh adapter's zero halves to small constant values, so that it has an effect and every gradient is
 * non-zero.
 */
export function perturbAdapter(lora: LoraParameters): void {
  let state = 1;
  for (const { half, value } of lora.tensors) {
    if (half === 'a') continue;
    for (let i = 0; i < value.length; i++) {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      value[i] = B_SCALE * (state / 2 ** 31 - 1);
    }
  }
}
