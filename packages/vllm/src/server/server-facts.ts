/** Everything that a server says of itself, asked once when it comes up. */
export interface ServerFacts {
  /** Null: what stands before it does not say. */
  readonly version: string | null;
  /** The base model's name there. */
  readonly model: string;
  /** Model that it was started with, a path or a name of a hub; `model` if it does not say. */
  readonly modelRoot: string;
  readonly contextLength: number;
  readonly vocabSize: number;
  /** The distribution that its log-probabilities are of. */
  readonly logprobsMode: 'raw' | 'processed';
  readonly maxLogprobs: number;
  /** Fields of a completion that it knows; null: it does not say. */
  readonly fields: ReadonlySet<string> | null;
  /** Adapters can be loaded while it runs. */
  readonly loadsAdapters: boolean;
  /** Its `--max-lora-rank`; null: it does not say. */
  readonly maxLoraRank: number | null;
  /** Null: it does not say. */
  readonly schedulingPolicy: 'fcfs' | 'priority' | null;
}

/** Why servers cannot be used as they are, in one line with what to do. */
export class UnusableServer extends Error {
  override readonly name = 'UnusableServer';
}
