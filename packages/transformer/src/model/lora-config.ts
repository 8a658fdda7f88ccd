/** The seven linear layers of a transformer block that can carry a LoRA adapter. */
export type LinearName = 'q' | 'k' | 'v' | 'o' | 'gate' | 'up' | 'down';

/** Every linear layer, in the order in which a block applies them. */
export const LINEAR_NAMES: readonly LinearName[] = ['q', 'k', 'v', 'o', 'gate', 'up', 'down'];

export interface LoraConfig {
  /** Inner dimension of the adapter. */
  readonly rank: number;
  /** The adapter's output is multiplied by `alpha / rank`. */
  readonly alpha: number;
  /** Which linear layers carry an adapter, in every block. */
  readonly targets: readonly LinearName[];
  /** Seed of the random initial values of the `a` matrices. */
  readonly initSeed: number;
}

/** Rank 8 on every linear layer, scale 2. */
export const DEFAULT_LORA_CONFIG: LoraConfig = { rank: 8, alpha: 16, targets: LINEAR_NAMES, initSeed: 0 };

/** Which half of an adapter: `y += scale · (x · aᵀ) · bᵀ`. */
export type LoraHalf = 'a' | 'b';
