/** Rules that keep checkpoints. Every policy keeps the newest one, step 0, marked ones and those in use. */
export interface KeepPolicy {
  /** Number of newest checkpoints, at least 1. */
  readonly last: number;
  /** True if the checkpoint with the highest reward is kept. */
  readonly best: boolean;
  /** Keeps every step that is a multiple of it; null: none for this reason. */
  readonly every: number | null;
  /** Number of newest checkpoints that keep their optimizer state, at least 1. */
  readonly optimizer: number;
}

export const DEFAULT_KEEP_POLICY = 'last=20,best,every=10';
export const KEEP_POLICY_FORM =
  '`all`, or a comma-separated list of `last=N`, `best`, `every=K`, `optimizer=N`; N and K are whole numbers from 1 to 1000000';

/** Default number of checkpoints with optimizer state: the newest, and one to go back to. */
const OPTIMIZER_STATES = 2;
const PART = /^(?:best|(last|every|optimizer)=([1-9]\d{0,6}))$/;
const MAX_NUMBER = 1_000_000;

export function isKeepPolicy(text: string): boolean {
  return text === 'all' || partsOf(text) !== null;
}

/**
 * Parses a policy that {@link isKeepPolicy} accepts.
 * @returns null for `all`: nothing is removed
 */
export function readKeepPolicy(text: string): KeepPolicy | null {
  const parts = text === 'all' ? null : partsOf(text);
  if (parts === null) return null;
  return {
    last: parts.get('last') ?? 1,
    best: parts.has('best'),
    every: parts.get('every') ?? null,
    optimizer: parts.get('optimizer') ?? OPTIMIZER_STATES,
  };
}

/** Numbers by part name, 1 for a part without a number; null if the text is not a list of distinct parts. */
function partsOf(text: string): ReadonlyMap<string, number> | null {
  const parts = new Map<string, number>();
  for (const part of text.split(',')) {
    const match = PART.exec(part);
    if (match === null) return null;
    const [, name = 'best', number = '1'] = match;
    if (parts.has(name) || Number(number) > MAX_NUMBER) return null;
    parts.set(name, Number(number));
  }
  return parts;
}
