import type { GgufFile } from '@trainyard/native';

/**
 * Warns of a mixture of experts whose shares do not sum to 1: llama.cpp ignores that setting of the family.
 *
 * @returns null for other models, and for the graphs, which apply it
 */
export function shareWarning({ metadata }: Pick<GgufFile, 'metadata'>, runner: 'graphs' | 'llama'): string | null {
  if (runner === 'graphs' || metadata.get('qwen3moe.expert_weights_norm') !== false) return null;
  return (
    'the file sets qwen3moe.expert_weights_norm to false, which llama.cpp ignores: ' +
    'its probabilities differ from those of training; use --precision exact or strict'
  );
}
