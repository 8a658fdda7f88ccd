import type { DeltaNet } from '@trainyard/transformer';
import { type HeadGradient, type KeptToken, newHeadGradient, newKeptToken } from './delta-gradient.ts';
import { StatePool } from './row-states.ts';

/** Tokens whose states are computed again together. */
export const CHUNK_TOKENS = 32;

/** Memory of one thread, for one head at a time. */
export class DeltaScratch {
  /** States of the value heads of a key head. */
  readonly pool: StatePool;
  readonly gradient: HeadGradient;
  /** Tokens of a chunk. */
  readonly chunk: readonly KeptToken[];

  constructor(net: DeltaNet) {
    this.pool = new StatePool(stateFloats(net));
    this.gradient = newHeadGradient(net);
    this.chunk = Array.from({ length: CHUNK_TOKENS }, () => newKeptToken(net));
  }

  /** Bytes for a row of so many tokens, without states at its forks. */
  static bytesFor(net: DeltaNet, numTokens: number): number {
    return 4 * stateFloats(net) * (CHUNK_TOKENS + Math.ceil(numTokens / CHUNK_TOKENS) + 2);
  }
}

const stateFloats = ({ numKeyHeads, numValueHeads, keySize, valueSize }: DeltaNet): number =>
  (numValueHeads / numKeyHeads) * keySize * valueSize;
