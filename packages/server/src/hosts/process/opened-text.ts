import type { BackendHealth } from '@trainyard/backend';
import type { ParameterCounts } from '@trainyard/engine';
import type { LinearName } from '@trainyard/trainer';
import type { TextCodec, TextEngine, TokenizerFacts } from '@trainyard/generation';

import type { CoreUse } from '../computing/compute-arbiter.ts';

export interface ServedModel {
  readonly path: string;
  readonly architecture: string;
  /** Longest sequence, prompt plus reply, in tokens. */
  readonly contextLength: number;
  readonly vocabSize: number;
  readonly tokenizer: TokenizerFacts;
  /** Reason why it cannot be trained; null: it can; absent: unknown. */
  readonly untrainable?: string | null;
  /** Linear layers that can have adapters, by transformer block. Null or absent: unknown. */
  readonly linearsByLayer?: readonly (readonly LinearName[])[] | null;
  /** Longest sequence that rope factors for short contexts allow, tokens. Null or absent: none. */
  readonly shortContext?: number | null;
  /** Absent: unknown. */
  readonly parameters?: ParameterCounts;
  /** Largest adapter rank. Null or absent: no known limit. */
  readonly maxLoraRank?: number | null;
  /** Differences between its computation and the intended one. Default: none. */
  readonly warnings?: readonly string[];
}

export interface OpenedText {
  readonly engine: TextEngine;
  readonly model: ServedModel;
  /** Text and ids outside generations. */
  readonly codec: TextCodec;
  /** Use of the cores shared with the trainer, by steps of this process; null = another process computes. */
  readonly coreUse: CoreUse | null;
  health(): Promise<Pick<BackendHealth, 'problem' | 'members' | 'adapters'>>;
  close(): Promise<void> | void;
}
