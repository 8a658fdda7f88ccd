import type { Random } from '@trainyard/transformer/testing';
import type { LoraParameters } from '../model/policy-model.ts';

/** Ordinary values in both halves: every gradient is non-zero. */
export function randomizeAdapter(lora: LoraParameters, random: Random): void {
  for (const tensor of lora.tensors) for (let i = 0; i < tensor.value.length; i++) tensor.value[i] = 0.3 * random();
}
