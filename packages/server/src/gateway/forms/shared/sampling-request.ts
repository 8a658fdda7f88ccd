import { randomUUID } from 'node:crypto';

import { isLogitsMode, type LogprobsMode } from '@trainyard/protocol/fields';
import type { Prompt } from '@trainyard/generation';
import {
  type ChatCompletionRequest,
  type CompletionRequest,
  fieldOfParam,
  findForeignToken,
  parseSeed,
  quoting,
  readParams,
  refusedField,
} from '@trainyard/protocol';

import type { InferenceRequest, ServedAdapter } from '../../../seams/contract/backends.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import { conflict, named, type SharedField, unsupported } from './conflict.ts';
import { checkReplyEntries, type LogprobLimits } from './logprob-limit.ts';
import { outputConstraint } from './output-constraint.ts';

/** Conversion to engine requests, shared by chat and text completions. */

/** Format of a stream; null means one JSON answer. */
export interface StreamFormat {
  hasUsage: boolean;
  hasContinuousUsage: boolean;
}

/** Fields with the same meaning in a chat and in a text completion. */
export type SharedFields = Omit<
  Pick<ChatCompletionRequest, keyof ChatCompletionRequest & keyof CompletionRequest>,
  'logprobs' | 'max_tokens' | 'echo' | 'add_special_tokens'
>;

export interface RequestedTokens {
  field: 'max_completion_tokens' | 'max_tokens';
  value: number;
}

/** Context of a request other than its own fields. */
export interface RequestContext extends LogprobLimits {
  /** Namespace of the prefix cache. */
  tenant: string;
  adapter: ServedAdapter | null;
  contextLength: number;
  /** Default distribution for log-probabilities. */
  logprobsMode: LogprobsMode;
  /** From the header `X-Vllm-Priority`, which overrides the body's; null = not sent. */
  priority: number | null;
}

/** Checks shared by a chat and a text completion. */
export function checkSharedFields(body: SharedFields, maxTokens: RequestedTokens | null): void {
  if (parseSeed(body.seed) === 'out_of_range') {
    const item = { loc: ['body', 'seed'], msg: 'Input should fit in 64 bits', type: 'int_range', input: body.seed };
    throw RequestError.invalid([item], { hasNamedItems: true });
  }
  const refused = refusedField(body);
  if (refused !== null) throw unsupported({ field: refused.param }, refused.reason);
  if (!body.stream && body.stream_options && Object.keys(body.stream_options).length > 0)
    throw conflict(named('stream_options'), quoting`${named('stream_options')} is only allowed with \`stream: true\``);
  const { prompt_logprobs: promptLogprobs = null } = body;
  if (body.stream && promptLogprobs !== null && promptLogprobs !== 0)
    throw conflict(
      named('prompt_logprobs'),
      quoting`${named('prompt_logprobs')} must be 0 with \`stream: true\`, got ${promptLogprobs}`,
    );
  if (body.use_beam_search && body.logprob_token_ids?.length)
    throw conflict(
      named('logprob_token_ids'),
      quoting`${named('logprob_token_ids')} is not allowed with ${named('use_beam_search')}`,
    );
  if (body.vllm_xargs && body.engine_xargs)
    throw conflict(
      named('engine_xargs'),
      quoting`${named('engine_xargs')} is another name of ${named('vllm_xargs')}: send only one of them`,
    );
  outputConstraint(body);
  checkRepetitionDetection(body);
  if (body.temperature === 0 && (body.n ?? 1) > 1 && !body.use_beam_search)
    throw conflict(
      named('n'),
      quoting`${named('n')} must be 1 with ${named('temperature')} 0 (all choices would be equal), got ${body.n ?? 1}`,
    );
  if (maxTokens !== null && (body.min_tokens ?? 0) > maxTokens.value)
    throw conflict(
      named('min_tokens'),
      quoting`${named('min_tokens')} must be at most ${named(maxTokens.field)} (${maxTokens.value}), got ${body.min_tokens ?? 0}`,
    );
}

/** True if training can use the samples: a beam search does not sample. */
export function isRecordable({ use_beam_search: isBeam }: SharedFields): boolean {
  return !isBeam;
}

export function streamFormatOf(body: SharedFields): StreamFormat | null {
  if (!body.stream) return null;
  const { include_usage: hasUsage, continuous_usage_stats: hasContinuousUsage } = body.stream_options ?? {};
  return { hasUsage: hasUsage ?? false, hasContinuousUsage: (hasUsage && hasContinuousUsage) ?? false };
}

/** Engine request fields shared by a chat and a text completion. @throws as {@link toChatGenerateRequest} */
export function toGenerateRequest(
  body: SharedFields,
  context: RequestContext,
  own: {
    /** Form whose field names apply. */
    form: 'chat' | 'completion';
    prompt: Prompt;
    maxTokens: RequestedTokens | null;
    logprobs: number | null;
    /** Field that asked for {@link logprobs}. */
    logprobsField: SharedField;
    /** Prompts of the request. Default 1. */
    numPrompts?: number;
  },
): InferenceRequest {
  const { contextLength, vocabSize } = context;
  const { maxTokens } = own;
  if (maxTokens !== null && maxTokens.value > contextLength)
    throw conflict(
      named(maxTokens.field),
      quoting`${named(maxTokens.field)} must be at most the model's context of ${contextLength} tokens, got ${maxTokens.value}`,
    );
  checkReplyEntries(own.logprobsField, own.logprobs ?? 0, {
    maxTokens: maxTokens?.value ?? contextLength,
    numChoices: (body.n ?? 1) * (own.numPrompts ?? 1),
  });
  const tokenParams = readParams(body, own.form, 'tokens');
  const isOwnMode = (body.logprobs_mode ?? null) !== null;
  const logprobsMode = isOwnMode ? tokenParams.logprobsMode : context.logprobsMode;
  if (isOwnMode && body.use_beam_search && isLogitsMode(logprobsMode))
    throw conflict(
      named('logprobs_mode'),
      quoting`${named('logprobs_mode')} must be a mode of log-probabilities with ${named('use_beam_search')}, got ${logprobsMode}`,
    );
  const params = {
    ...tokenParams,
    logprobsMode,
    ...readParams(body, own.form, 'text'),
    sampling: {
      ...readParams(body, own.form, 'sampling'),
      logitBias: biasById(body.logit_bias ?? {}, vocabSize),
      seed: sampleSeed(body),
    },
  };
  if (params.logprobTokenIds !== null && own.logprobs === null)
    throw conflict(
      named('logprob_token_ids'),
      quoting`${named('logprob_token_ids')} is only allowed with ${named('logprobs')}`,
    );
  const foreign = findForeignToken(params, vocabSize);
  if (foreign !== null) {
    const field = { field: fieldOfParam(foreign.name) ?? foreign.name };
    throw conflict(field, quoting`${field} must ${foreign.rule}, got ${foreign.id}`);
  }
  return {
    ...params,
    requestId: randomUUID(),
    tenant: context.tenant,
    adapter: context.adapter,
    prompt: own.prompt,
    maxTokens: maxTokens?.value ?? null,
    logprobs: own.logprobs,
    priority: context.priority ?? params.priority,
    constraint: outputConstraint(body)?.spec ?? null,
    constraintStartsAfter: null,
    stopsInReasoning: true,
    beamSearch: body.use_beam_search ? { lengthPenalty: body.length_penalty ?? 1 } : null,
    promptLogprobs: null,
    promptLogprobsFirst: false,
    tracesSampling: false,
    reply: null,
  };
}

/**
 * Bias by id, each id once: of several spellings ("5", "05") the last counts, as in vLLM. `JSON.parse` puts
 * those without leading zeros first.
 * @param bias by token id in decimal
 * @throws {RequestError} `request.conflict` for more entries than ids, which would only cost time
 */
function biasById(bias: Readonly<Record<string, number>>, vocabSize: number): [id: number, bias: number][] {
  const numEntries = Object.keys(bias).length;
  if (numEntries > vocabSize)
    throw conflict(
      named('logit_bias'),
      quoting`${named('logit_bias')} must hold at most ${vocabSize} entries, one per token of the vocabulary, got ${numEntries}`,
    );
  return [...new Map(Object.entries(bias).map(([key, value]) => [Number(key), value]))];
}

/** @throws {RequestError} `request.conflict` */
function checkRepetitionDetection({ repetition_detection: detection }: SharedFields): void {
  const { max_pattern_size: longest = 0, min_pattern_size: shortest = 0, min_count: count = 0 } = detection ?? {};
  const field = 'repetition_detection';
  if (shortest > longest)
    throw conflict(
      named(field),
      quoting`${named(`${field}.min_pattern_size`)} must be at most \`max_pattern_size\` (${longest}), got ${shortest}`,
    );
  if (longest > 0 && count < 2)
    throw conflict(
      named(field),
      quoting`${named(`${field}.min_count`)} must be at least 2 with a \`max_pattern_size\`, got ${count}`,
    );
}

function sampleSeed(body: SharedFields): bigint | null {
  const seed = parseSeed(body.seed);
  if (seed === 'out_of_range') throw new Error('the seed was checked with the request');
  return seed;
}
