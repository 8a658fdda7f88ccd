/**
 * Minimum alpha of an adapter. Adapter files store it in single precision, in which less could be 0, which
 * llama.cpp reads as no scale; above it alpha / rank is exact to 2⁻²⁴ for every rank.
 */
export const LEAST_LORA_ALPHA = 1e-30;
