import type { GgufFile } from '@trainyard/native';

/** Architectures with windows that the sampler applies. */
const WINDOWED: ReadonlySet<string> = new Set(
  (
    'afmoe cohere2 dots1 exaone-moe exaone4 gemma-embedding gemma2 gemma3 gemma3n gpt-oss llama4 mimo2 modern-bert olmo2 phi3 ' +
    'plamo3 smallthinker step35'
  ).split(' '),
);

/** Window of the first Mistral 7B, which converters omit from the file. */
const MISTRAL_WINDOW = 4096;
const FIRST_MISTRAL = /mistral[-_ ]7b.*v0\.1/i;

/**
 * Warns of a model trained with a sliding window but computed with full attention, for which results beyond the
 * window differ.
 *
 * @param runner the graphs apply every window that a file sets
 * @returns null for a model without a window, or with one that is applied or never reached
 */
export function windowWarning(
  { metadata }: Pick<GgufFile, 'metadata'>,
  contextLength: number,
  runner: 'graphs' | 'llama',
): string | null {
  const architecture = String(metadata.get('general.architecture'));
  if (WINDOWED.has(architecture)) return null;
  const written = Number(metadata.get(`${architecture}.attention.sliding_window`) ?? 0);
  if (written > 0 && runner === 'graphs') return null;
  const names = ['general.name', 'general.basename', 'general.base_model.0.name'].map((key) =>
    String(metadata.get(key) ?? ''),
  );
  const isFirstMistral = names.some((name) => FIRST_MISTRAL.test(name));
  const window = written > 0 ? written : isFirstMistral ? MISTRAL_WINDOW : 0;
  if (window === 0 || window >= contextLength) return null;
  const source = written > 0 ? 'the file sets' : 'the file omits';
  return (
    `the model has a sliding window of ${window} tokens (${source} ${architecture}.attention.sliding_window), which is not applied: ` +
    `sequences of more than ${window} tokens are computed with full attention; limit them to ${window}, or use a model without a window`
  );
}
