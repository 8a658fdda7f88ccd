import type { GgufFile } from '@trainyard/native';

const ADVICE = 'its probabilities differ from those of training; use --precision exact or strict';

/**
 * Warns of models that llama.cpp computes differently from their graphs: it always makes the shares of experts sum to
 * 1, and always rounds the dimensions between which yarn changes.
 *
 * @returns null for other models, and for the graphs
 */
export function llamaWarning({ metadata }: Pick<GgufFile, 'metadata'>, runner: 'graphs' | 'llama'): string | null {
  if (runner === 'graphs') return null;
  if (metadata.get('qwen3moe.expert_weights_norm') === false)
    return `the file sets qwen3moe.expert_weights_norm to false, which llama.cpp ignores: ${ADVICE}`;
  if (metadata.get('gpt-oss.rope.scaling.type') === 'yarn')
    return `llama.cpp rounds the dimensions between which yarn changes, which gpt-oss does not: ${ADVICE}`;
  return null;
}
