import type { PolicyTokenSpan } from '@trainyard/protocol';

import type { AnswerFormat } from './request.ts';

/**
 * Step that sampled the tokens of a choice, in ART's form. The step is the one resolved for the request,
 * regardless of later training.
 * @param numTokens of the choice
 * @returns an empty object if the choice shows no tokens, or has none
 */
export function policySpans(
  { policyStep: step, hasTokenIds }: Pick<AnswerFormat, 'policyStep' | 'hasTokenIds'>,
  { id, model }: { id: string; model: string },
  numTokens: number,
): { policy_token_spans?: PolicyTokenSpan[] } {
  if (step === null || !hasTokenIds || numTokens === 0) return {};
  const policy = { generation_id: id, policy_version: step, lora_slot: model, update_seq: step };
  return { policy_token_spans: [{ start_token: 0, end_token: numTokens, ...policy }] };
}
