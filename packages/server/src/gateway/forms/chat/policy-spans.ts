import type { PolicyTokenSpan } from '@trainyard/protocol';

import type { AnswerFormat } from './request.ts';

/**
 * Which step sampled the tokens of a choice, in the form that ART reads. An answer is sampled by the step that its request found, whatever is trained
 * meanwhile.
 *
 * @param numTokens of the choice
 * @returns nothing where the choice tells no tokens, or has none
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
