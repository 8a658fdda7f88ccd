import { randomUUID } from 'node:crypto';

import { DEFAULT_GENERATE } from '@trainyard/generation';

import type { ModelInference } from '../contract/backends.ts';
import { BackendFailure } from '../faults/backend-failure.ts';
import type { TrainingJobRequest } from '../hosts/messages.ts';

/** Plain words of many kinds: every model has seen their like, and no two models agree on them to a tenth of a nat. */
const TEXT =
  'The river rises in the hills north of the town and reaches the sea after 214 kilometres. In 1897, engineers measured its depth at ' +
  'seven places; "nowhere", they wrote, "is it less than two metres." def depth(x): return max(0, x - 3)  # metres. ' +
  'Am Abend kamen die Boote zurück, et le marché ferma. What would you measure first, and why?';
const NUM_TOKENS = 64;

/** 64 fixed tokens under a base model, as this service samples from it. @throws {BackendFailure} */
export async function baseSample(
  inference: ModelInference,
  signal: AbortSignal,
): Promise<NonNullable<TrainingJobRequest['baseSample']>> {
  const { tokenIds: all } = await inference.tokenize(
    { kind: 'text', text: TEXT, addSpecialTokens: false },
    { withTexts: false, signal },
  );
  const tokenIds = all.slice(0, NUM_TOKENS);
  const request = {
    ...DEFAULT_GENERATE,
    requestId: `base-sample-${randomUUID()}`,
    tenant: 'base-sample',
    prompt: { kind: 'tokens', tokenIds },
    maxTokens: 1,
    promptLogprobs: 0,
  } as const;
  for await (const event of inference.generate(request, signal)) {
    if (event.kind === 'failed') throw new BackendFailure(event.code, event.message, null);
    if (event.kind !== 'completed') continue;
    const logprobs = (event.promptLogprobs ?? []).slice(1).map((entries) => entries?.[0]?.logprob ?? NaN);
    return { tokenIds, logprobs };
  }
  throw new BackendFailure('engine.internal', 'log-probabilities of a fixed text were not answered', null);
}
