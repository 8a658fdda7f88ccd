/** Linear layers that can have an adapter. */
export type LinearName = 'q' | 'k' | 'v' | 'o' | 'gate' | 'up' | 'down';

export const LINEAR_NAMES: readonly LinearName[] = ['q', 'k', 'v', 'o', 'gate', 'up', 'down'];

export interface LoraConfig {
  /** Inner dimension of the adapter. */
  readonly rank: number;
  /** The adapter's output is multiplied by `alpha / rank`. */
  readonly alpha: number;
  /** Linear layers with an adapter, in every block. */
  readonly targets: readonly LinearName[];
  /** Seed of the initial `a` matrices. */
  readonly initSeed: number;
}

export const DEFAULT_LORA_CONFIG: LoraConfig = { rank: 8, alpha: 16, targets: LINEAR_NAMES, initSeed: 0 };

/** Half of an adapter: `y += scale · (x · aᵀ) · bᵀ`. */
export type LoraHalf = 'a' | 'b';
