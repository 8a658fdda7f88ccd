import type { GgufFile } from '@trainyard/native';

const ADVICE = 'its probabilities differ from those of training; use --precision exact or strict';

/** Numbers of rotations between which yarn changes, in llama.cpp. */
const YARN_BETAS = { yarn_beta_fast: 32, yarn_beta_slow: 1 } as const;

/**
 * Warns of models that llama.cpp computes differently from their graphs. It always makes the shares of experts sum to 1,
 * has one range of rotations for yarn, and rounds the dimensions of that range.
 *
 * @returns null for other models, and for the graphs
 */
export function llamaWarning({ metadata }: Pick<GgufFile, 'metadata'>, runner: 'graphs' | 'llama'): string | null {
  if (runner === 'graphs') return null;
  const name = String(metadata.get('general.architecture'));
  const scaling = (key: string) => metadata.get(`${name}.rope.scaling.${key}`);
  if (name === 'qwen3moe' && metadata.get('qwen3moe.expert_weights_norm') === false)
    return `the file sets qwen3moe.expert_weights_norm to false, which llama.cpp ignores: ${ADVICE}`;
  if (scaling('type') !== 'yarn') return null;
  for (const [key, usual] of Object.entries(YARN_BETAS))
    if (Number(scaling(key) ?? usual) !== usual)
      return `the file sets ${name}.rope.scaling.${key}, and llama.cpp uses ${usual}: ${ADVICE}`;
  if (name !== 'gpt-oss') return null;
  return `llama.cpp rounds the dimensions between which yarn changes, which gpt-oss does not: ${ADVICE}`;
}
