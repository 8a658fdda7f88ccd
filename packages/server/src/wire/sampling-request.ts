import { randomUUID } from 'node:crypto';

import type { AdapterRef, RepetitionDetection } from '@trainyard/backend';
import type { GenerateRequest, Prompt } from '@trainyard/generation';
import {
  type ChatCompletionRequest,
  type CompletionRequest,
  parseSeed,
  readParams,
  refusedField,
} from '@trainyard/protocol';

import { RequestError } from '../faults/request-error.ts';
import { conflict, unsupported } from './conflict.ts';
import { checkReplyEntries, type LogprobLimits } from './logprob-limit.ts';
import { outputConstraint } from './output-constraint.ts';

/** Shared by chat and text completions on their way to the engine. */

/** How a stream is written; null stands for one JSON answer. */
export interface StreamFormat {
  hasUsage: boolean;
  hasContinuousUsage: boolean;
}

/** The fields that mean the same in a chat and in a text completion. */
export type SharedFields = Omit<
  Pick<ChatCompletionRequest, keyof ChatCompletionRequest & keyof CompletionRequest>,
  'logprobs' | 'max_tokens' | 'echo' | 'add_special_tokens'
>;

/** How many tokens were asked for, under which name. */
export interface RequestedTokens {
  field: 'max_completion_tokens' | 'max_tokens';
  value: number;
}

/** Context of a request besides its own fields. */
export interface RequestContext extends LogprobLimits {
  /** The namespace of the prefix cache. */
  tenant: string;
  adapter: AdapterRef | null;
  contextLength: number;
  /** From the header `X-Vllm-Priority`, which wins over the body's; null = not sent. */
  priority: number | null;
}

/** The checks that a chat and a text completion have in common. */
export function checkSharedFields(body: SharedFields, maxTokens: RequestedTokens | null): void {
  if (parseSeed(body.seed) === 'out_of_range') {
    throw RequestError.invalid([
      { loc: ['body', 'seed'], msg: 'Input should fit in 64 bits', type: 'int_range', input: body.seed },
    ]);
  }
  const refused = refusedField(body);
  if (refused !== null) throw unsupported(refused.param, refused.reason);
  if (!body.stream && body.stream_options && Object.keys(body.stream_options).length > 0)
    throw conflict('stream_options', '`stream_options` is only allowed with `stream: true`');
  const { prompt_logprobs: promptLogprobs = null } = body;
  if (body.stream && promptLogprobs !== null && promptLogprobs !== 0)
    throw conflict('prompt_logprobs', `\`prompt_logprobs\` must be 0 with \`stream: true\`, got ${promptLogprobs}`);
  if (body.use_beam_search && body.logprob_token_ids?.length)
    throw conflict('logprob_token_ids', '`logprob_token_ids` is not allowed with `use_beam_search`');
  if (body.vllm_xargs && body.engine_xargs)
    throw conflict('engine_xargs', '`engine_xargs` is another name of `vllm_xargs`: send one of them');
  outputConstraint(body);
  checkRepetitionDetection(body);
  if (body.temperature === 0 && (body.n ?? 1) > 1 && !body.use_beam_search)
    throw conflict('n', `\`n\` must be 1 with \`temperature\` 0, where all choices would be equal, got ${body.n}`);
  if (maxTokens !== null && (body.min_tokens ?? 0) > maxTokens.value)
    throw conflict(
      'min_tokens',
      `\`min_tokens\` must be at most \`${maxTokens.field}\` (${maxTokens.value}), got ${body.min_tokens}`,
    );
}

export function streamFormatOf(body: SharedFields): StreamFormat | null {
  if (!body.stream) return null;
  const { include_usage: hasUsage, continuous_usage_stats: hasContinuousUsage } = body.stream_options ?? {};
  return { hasUsage: hasUsage ?? false, hasContinuousUsage: (hasUsage && hasContinuousUsage) ?? false };
}

/** The part that a chat and a text completion share. @throws as {@link toChatGenerateRequest} */
export function toGenerateRequest(
  body: SharedFields,
  context: RequestContext,
  own: {
    /** What the fields are read as. */
    form: 'chat' | 'completion';
    prompt: Prompt;
    maxTokens: RequestedTokens | null;
    logprobs: number | null;
    /** The field that asked for {@link logprobs}. */
    logprobsField: string;
    /** Prompts of the request. Default 1. */
    numPrompts?: number;
  },
): GenerateRequest {
  const { contextLength, vocabSize } = context;
  const { maxTokens } = own;
  if (maxTokens !== null && maxTokens.value > contextLength)
    throw conflict(
      maxTokens.field,
      `\`${maxTokens.field}\` must be at most the model's context of ${contextLength} tokens, got ${maxTokens.value}`,
    );
  checkReplyEntries(own.logprobsField, own.logprobs ?? 0, {
    maxTokens: maxTokens?.value ?? contextLength,
    numChoices: (body.n ?? 1) * (own.numPrompts ?? 1),
  });
  return {
    requestId: randomUUID(),
    tenant: context.tenant,
    adapter: context.adapter,
    prompt: own.prompt,
    ...readParams(body, own.form, 'tokens'),
    ...readParams(body, own.form, 'text'),
    sampling: {
      ...readParams(body, own.form, 'sampling'),
      logitBias: Object.entries(body.logit_bias ?? {}).map(([key, bias]) => [
        tokenIdWithin('logit_bias', Number(key), vocabSize),
        bias,
      ]),
      seed: sampleSeed(body),
    },
    maxTokens: maxTokens?.value ?? null,
    stopTokenIds: [...new Set(body.stop_token_ids)].map((id) => tokenIdWithin('stop_token_ids', id, vocabSize)),
    logprobs: own.logprobs,
    logprobTokenIds: scoredIds(body, own.logprobs !== null, vocabSize),
    priority: context.priority ?? body.priority ?? 0,
    allowedTokenIds: body.allowed_token_ids?.map((id) => tokenIdWithin('allowed_token_ids', id, vocabSize)) ?? null,
    repetitionDetection: repetitionDetection(body),
    constraint: outputConstraint(body)?.spec ?? null,
    constraintStartsAfter: null,
    beamSearch: body.use_beam_search ? { lengthPenalty: body.length_penalty ?? 1 } : null,
    promptLogprobs: null,
    promptLogprobsFirst: false,
    tracesSampling: false,
    reply: null,
  };
}

/** @throws {RequestError} `request.conflict` */
function checkRepetitionDetection({ repetition_detection: detection }: SharedFields): void {
  const { max_pattern_size: longest = 0, min_pattern_size: shortest = 0, min_count: count = 0 } = detection ?? {};
  const field = 'repetition_detection';
  if (shortest > longest)
    throw conflict(
      field,
      `\`${field}.min_pattern_size\` must be at most \`max_pattern_size\` (${longest}), got ${shortest}`,
    );
  if (longest > 0 && count < 2)
    throw conflict(field, `\`${field}.min_count\` must be at least 2 with a \`max_pattern_size\`, got ${count}`);
}

function repetitionDetection({ repetition_detection: detection }: SharedFields): RepetitionDetection | null {
  if (!detection) return null;
  const {
    max_pattern_size: maxPatternSize = 0,
    min_pattern_size: minPatternSize = 0,
    min_count: minCount = 0,
  } = detection;
  if (maxPatternSize === 0 && minPatternSize === 0) return null;
  return { maxPatternSize, minPatternSize, minCount };
}

function scoredIds(
  { logprob_token_ids: ids = null }: SharedFields,
  hasLogprobs: boolean,
  vocabSize: number,
): readonly number[] | null {
  if (ids === null || ids.length === 0) return null;
  if (!hasLogprobs) throw conflict('logprob_token_ids', '`logprob_token_ids` is only allowed with `logprobs`');
  return ids.map((id) => tokenIdWithin('logprob_token_ids', id, vocabSize));
}

function sampleSeed(body: SharedFields): bigint | null {
  const seed = parseSeed(body.seed);
  if (seed === 'out_of_range') throw new Error('the seed was checked with the request');
  return seed;
}

function tokenIdWithin(field: string, id: number, vocabSize: number): number {
  if (id >= 0 && id < vocabSize) return id;
  throw conflict(field, `\`${field}\` must hold token ids in [0, ${vocabSize}), got ${id}`);
}
