import type { BackendHealth } from '@trainyard/backend';
import type { TextCodec, TextEngine, TokenizerFacts } from '@trainyard/generation';

import type { CoreUse } from '../computing/compute-arbiter.ts';

export interface ServedModel {
  /** The file really loaded. */
  readonly path: string;
  readonly architecture: string;
  /** Longest sequence, prompt and reply together, tokens. */
  readonly contextLength: number;
  readonly vocabSize: number;
  readonly tokenizer: TokenizerFacts;
  /** Why it cannot be trained; null: it can; absent: not known. */
  readonly untrainable?: string | null;
  /** Largest rank of an adapter. Null or absent: any, as far as is known. */
  readonly maxLoraRank?: number | null;
  /** Reasons why it computes something else than it was made for. Default: none. */
  readonly warnings?: readonly string[];
}

/** Text over whatever samples. */
export interface OpenedText {
  readonly engine: TextEngine;
  readonly model: ServedModel;
  /** Text and ids outside any generation. */
  readonly codec: TextCodec;
  /** How steps compute in this process, on the cores that the trainer wants too; null = they compute elsewhere. */
  readonly coreUse: CoreUse | null;
  health(): Promise<Pick<BackendHealth, 'trouble' | 'members' | 'adapters'>>;
  close(): Promise<void> | void;
}
