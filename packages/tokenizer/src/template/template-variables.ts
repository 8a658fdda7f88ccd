/**
 * Template variables that are set unless a request sets them: the same for rollouts and for training, or the prompts would differ.
 *
 * `enable_thinking: false` and `preserve_thinking: true`, each only where the template mentions it.
 * @see the ART trainer, which renders this way and is never told what the rollout's request said
 */
export function defaultTemplateVariables(source: string): Record<string, unknown> {
  return {
    ...(source.includes('enable_thinking') ? { enable_thinking: false } : {}),
    ...(source.includes('preserve_thinking') ? { preserve_thinking: true } : {}),
  };
}
