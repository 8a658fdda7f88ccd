/**
 * The least alpha of an adapter. Adapter files have it in single precision, where less could be 0, which llama.cpp reads as no scale at all; above it
 * alpha / rank is exact to 2⁻²⁴ for every rank.
 */
export const LEAST_LORA_ALPHA = 1e-30;
