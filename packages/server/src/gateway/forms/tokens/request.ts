import {
  type CompletionRequest,
  type GenerateTokensRequest,
  GenerateTokensRequestSchema,
  namesFrom,
} from '@trainyard/protocol';

import type { CompletionPrompt } from '../completions/prompts.ts';
import type { InferenceRequest } from '../../../seams/contract/backends.ts';
import { conflict, type FormNames } from '../shared/conflict.ts';
import { refuseOtherFields } from '../shared/refuse-other-fields.ts';
import { countedEntries } from '../shared/logprob-limit.ts';
import {
  checkSharedFields,
  type RequestContext,
  type RequestedTokens,
  toGenerateRequest,
} from '../shared/sampling-request.ts';

const SAMPLING_FIELDS = Object.keys(GenerateTokensRequestSchema.properties.sampling_params.properties);

/** Names of text completion fields in this form. */
export const TOKEN_GENERATION_NAMES = namesFrom({
  prompt: 'token_ids',
  ...Object.fromEntries(SAMPLING_FIELDS.map((name) => [name, `sampling_params.${name}`])),
} satisfies FormNames);

const IDS_ALONE = 'a prompt must be token ids';
/** Reasons why known fields of the form are not supported. */
const REASONS: Readonly<Record<string, string>> = {
  features: IDS_ALONE,
  content_parts: IDS_ALONE,
  kv_transfer_params: 'prefill and sampling run in the same process',
  extra_args: 'there are no custom samplers',
  output_kind: 'send `stream`',
};

/**
 * Converts a request of this form to a text completion with one prompt.
 * @param body passed the schema
 * @throws {RequestError} `request.unsupported`, `request.conflict`, with fields of `body`, or of a completion
 * by its own names
 */
export function toCompletion(body: GenerateTokensRequest): CompletionRequest {
  refuseOtherFields(body, Object.keys(GenerateTokensRequestSchema.properties), null, REASONS);
  refuseOtherFields(body.sampling_params, SAMPLING_FIELDS, 'sampling_params', REASONS);
  const {
    detokenize = null,
    flat_logprobs: _flat,
    routed_experts_prompt_start: _start,
    skip_special_tokens: skips,
    ...sampling
  } = body.sampling_params;
  const hasStops = typeof sampling.stop === 'string' || (sampling.stop ?? []).length > 0;
  if (detokenize === false && hasStops)
    throw conflict(
      'sampling_params.detokenize',
      '`sampling_params.stop` requires `sampling_params.detokenize`, because it matches text',
    );
  const { token_ids: prompt, sampling_params: _params, ...rest } = body;
  const completion: CompletionRequest = {
    ...rest,
    ...sampling,
    prompt,
    ...(typeof skips === 'boolean' ? { skip_special_tokens: skips } : {}),
  };
  checkSharedFields(completion, requestedTokens(completion));
  return completion;
}

/** Maximum tokens of the reply; null = to the end of the context, as in a chat. */
export function requestedTokens({ max_tokens: maxTokens }: CompletionRequest): RequestedTokens | null {
  return typeof maxTokens === 'number' ? { field: 'max_tokens', value: maxTokens } : null;
}

/**
 * Builds the engine's request.
 * @param isRecorded true if the samples are recorded, which needs their log-probabilities
 * @throws {RequestError} `request.conflict`
 */
export function toTokenGeneration(
  body: CompletionRequest,
  { tokenIds }: CompletionPrompt,
  context: RequestContext,
  isRecorded: boolean,
): InferenceRequest {
  const unasked = isRecorded ? 0 : null;
  const request = toGenerateRequest(body, context, {
    form: 'completion',
    prompt: { kind: 'tokens', tokenIds },
    maxTokens: requestedTokens(body),
    logprobs: typeof body.logprobs === 'number' ? countedEntries('logprobs', body.logprobs, context) : unasked,
    logprobsField: 'logprobs',
  });
  const numScored =
    typeof body.prompt_logprobs === 'number' ? countedEntries('prompt_logprobs', body.prompt_logprobs, context) : null;
  return { ...request, tracesSampling: isRecorded, promptLogprobs: body.stream ? null : numScored };
}
