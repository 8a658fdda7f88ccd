/** Properties of a server, read once when it comes up. */
export interface ServerFacts {
  /** Null if a proxy in front of it does not report it. */
  readonly version: string | null;
  /** Name of the base model on the server. */
  readonly model: string;
  /** Model that it was started with, a path or a name of a hub; `model` if not reported. */
  readonly modelRoot: string;
  readonly contextLength: number;
  readonly vocabSize: number;
  /** Distribution of its log-probabilities. */
  readonly logprobsMode: 'raw' | 'processed';
  readonly maxLogprobs: number;
  /** Supported fields of a completion; null if not reported. */
  readonly fields: ReadonlySet<string> | null;
  /** True if adapters can be loaded at run time. */
  readonly loadsAdapters: boolean;
  /** Its `--max-lora-rank`; null if not reported. */
  readonly maxLoraRank: number | null;
  /** Null if not reported. */
  readonly schedulingPolicy: 'fcfs' | 'priority' | null;
}

/** Reason why servers cannot be used, in one line with the remedy. */
export class UnusableServer extends Error {
  override readonly name = 'UnusableServer';
}
