import { randomUUID } from 'node:crypto';

import type { AdapterRef, GenerateRequest, Prompt } from '@trainyard/engine';
import {
  type ChatCompletionRequest,
  type CompletionRequest,
  MAX_TOP_LOGPROBS,
  messageFaults,
  parseSeed,
  unsupportedField,
} from '@trainyard/protocol';

import { isDeeperThan } from '../json-depth.ts';
import type { ResolvedModel } from '../model-names.ts';
import { RequestError } from '../request-error.ts';

/** How the answer is written; what the engine does not need to know. */
export interface AnswerFormat {
  /** The model is one that is trained here, so its prompts are rendered as training renders them. */
  isTrainedModel: boolean;
  hasLogprobs: boolean;
  /** Tokens of logprob entries as `token_id:N`. */
  hasTokensAsIds: boolean;
  hasTokenIds: boolean;
  hasPromptTokenIds: boolean;
  /** `prompt_text`, with `return_prompt_text`. */
  hasPromptText: boolean;
  /** Of the replies: the last message's when no generation prompt is added, else `assistant`. */
  role: string;
  /** With `echo`, the text of the last message, in front of every reply; null = nothing. */
  echo: string | null;
  /** How calls of tools are reported; `none`: they stay text. */
  toolChoice: 'none' | 'auto' | 'required' | 'named';
  /** False: reasoning, and the tokens and logprobs of replies that may hold some, are left out. */
  hasReasoning: boolean;
  /** Reasoning is given under its older name `reasoning_content` too. */
  hasReasoningContent: boolean;
  /** Tokens of a choice that a chunk of a stream waits for, at least 1. */
  streamInterval: number;
  /** Null = one JSON answer. */
  stream: { hasUsage: boolean; hasContinuousUsage: boolean } | null;
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

/** Sampling at a lower temperature would overflow; vLLM raises it the same way. */
const MIN_TEMPERATURE = 0.01;
/** Levels of lists and objects in what templates are given: JSON schemas of tools have some twenty. */
const MAX_DEPTH = 256;
/** Template variables that would change what is rendered with, rather than what is rendered. */
const FORBIDDEN_TEMPLATE_VARIABLES = ['chat_template', 'tokenize'] as const;

/**
 * The checks that need more than one field but no model.
 *
 * @param body passed the schema
 * @throws {RequestError} `request.invalid`, `request.unsupported`, `request.conflict`
 */
export function checkChatRequest(body: ChatCompletionRequest): void {
  checkTemplateInput(body);
  checkSharedFields(body, unsupportedField(body), requestedTokens(body));
  checkTools(body);
}

/** What goes into a chat template. @throws {RequestError} `request.invalid`, `request.conflict` */
export function checkTemplateInput(
  body: Pick<ChatCompletionRequest, 'messages' | 'tools' | 'chat_template_kwargs'>,
): void {
  for (const field of ['messages', 'tools', 'chat_template_kwargs'] as const) {
    if (!isDeeperThan(body[field], MAX_DEPTH)) continue;
    const msg = `Input should nest at most ${MAX_DEPTH} levels of lists and objects`;
    throw RequestError.invalid([{ loc: ['body', field], msg, type: 'recursion_limit' }]);
  }
  const faults = messageFaults(body.messages);
  if (faults.length > 0) throw RequestError.invalid(faults);
  for (const variable of FORBIDDEN_TEMPLATE_VARIABLES) {
    if (body.chat_template_kwargs && Object.hasOwn(body.chat_template_kwargs, variable))
      throw conflict('chat_template_kwargs', `\`chat_template_kwargs\` must not contain \`${variable}\``);
  }
}

/**
 * The checks that a chat and a text completion have in common.
 *
 * @param unsupported the field of the body that is not honoured yet, if any
 */
export function checkSharedFields(
  body: SharedFields,
  unsupported: string | null,
  maxTokens: RequestedTokens | null,
): void {
  if (parseSeed(body.seed) === 'out_of_range') {
    throw RequestError.invalid([
      { loc: ['body', 'seed'], msg: 'Input should fit in 64 bits', type: 'int_range', input: body.seed },
    ]);
  }
  if (unsupported !== null) throw notSupported(unsupported);
  if (!body.stream && body.stream_options && Object.keys(body.stream_options).length > 0)
    throw conflict('stream_options', '`stream_options` is only allowed with `stream: true`');
  if (body.temperature === 0 && (body.n ?? 1) > 1)
    throw conflict('n', `\`n\` must be 1 with \`temperature\` 0, where all choices would be equal, got ${body.n}`);
  if (maxTokens !== null && (body.min_tokens ?? 0) > maxTokens.value)
    throw conflict(
      'min_tokens',
      `\`min_tokens\` must be at most \`${maxTokens.field}\` (${maxTokens.value}), got ${body.min_tokens}`,
    );
}

/** Which defaults apply, once the model is known. */
export function answerFormatOf(body: ChatCompletionRequest, model: ResolvedModel): AnswerFormat {
  // Training needs the sampled tokens with their log-probabilities, and its clients do not ask for them.
  const isTrained = model.kind === 'checkpoint';
  return {
    isTrainedModel: isTrained,
    hasLogprobs: body.logprobs ?? isTrained,
    hasTokensAsIds: body.return_tokens_as_token_ids ?? isTrained,
    hasTokenIds: body.return_token_ids ?? isTrained,
    hasPromptTokenIds: body.return_token_ids ?? false,
    hasPromptText: body.return_prompt_text ?? false,
    role: 'assistant',
    echo: null,
    toolChoice: 'none',
    hasReasoning: body.include_reasoning ?? true,
    hasReasoningContent: false,
    streamInterval: body.stream_interval ?? 1,
    stream: streamFormatOf(body),
  };
}

export function streamFormatOf(body: SharedFields): AnswerFormat['stream'] {
  if (!body.stream) return null;
  const { include_usage: hasUsage, continuous_usage_stats: hasContinuousUsage } = body.stream_options ?? {};
  return { hasUsage: hasUsage ?? false, hasContinuousUsage: (hasUsage && hasContinuousUsage) ?? false };
}

/** What a request needs besides its own fields. */
export interface RequestContext {
  /** The namespace of the prefix cache. */
  tenant: string;
  adapter: AdapterRef | null;
  contextLength: number;
  vocabSize: number;
}

/**
 * A chat as the engine reads it.
 *
 * @throws {RequestError} `request.conflict` for values that this model cannot take
 */
export function toChatGenerateRequest(
  body: ChatCompletionRequest,
  context: RequestContext,
  format: AnswerFormat,
): GenerateRequest {
  return toGenerateRequest(body, context, {
    prompt: {
      kind: 'chat',
      messages: body.messages,
      tools: body.tools ?? null,
      templateVariables: body.chat_template_kwargs ?? {},
      rendersAsTraining: format.isTrainedModel,
    },
    maxTokens: requestedTokens(body),
    logprobs: countedLogprobs(body, format),
  });
}

/** The part that a chat and a text completion share. @throws as {@link toChatGenerateRequest} */
export function toGenerateRequest(
  body: SharedFields,
  context: RequestContext,
  own: { prompt: Prompt; maxTokens: RequestedTokens | null; logprobs: number | null },
): GenerateRequest {
  const { contextLength, vocabSize } = context;
  const { maxTokens } = own;
  if (maxTokens !== null && maxTokens.value > contextLength)
    throw conflict(
      maxTokens.field,
      `\`${maxTokens.field}\` must be at most the model's context of ${contextLength} tokens, got ${maxTokens.value}`,
    );
  return {
    requestId: randomUUID(),
    tenant: context.tenant,
    cacheSalt: body.cache_salt ?? null,
    adapter: context.adapter,
    prompt: own.prompt,
    n: body.n ?? 1,
    sampling: {
      temperature: samplingTemperature(body.temperature ?? 1),
      topP: body.top_p ?? 1,
      topK: Math.max(body.top_k ?? 0, 0),
      minP: body.min_p ?? 0,
      presencePenalty: body.presence_penalty ?? 0,
      frequencyPenalty: body.frequency_penalty ?? 0,
      repetitionPenalty: body.repetition_penalty ?? 1,
      logitBias: Object.entries(body.logit_bias ?? {}).map(([key, bias]) => [
        tokenIdWithin('logit_bias', Number(key), vocabSize),
        bias,
      ]),
      seed: sampleSeed(body),
    },
    maxTokens: maxTokens?.value ?? null,
    stop: typeof body.stop === 'string' ? [body.stop] : (body.stop ?? []),
    stopTokenIds: [...new Set(body.stop_token_ids)].map((id) => tokenIdWithin('stop_token_ids', id, vocabSize)),
    ignoreEos: body.ignore_eos ?? false,
    includeStopString: body.include_stop_str_in_output ?? false,
    minTokens: body.min_tokens ?? 0,
    logprobs: own.logprobs,
    priority: body.priority ?? 0,
    skipSpecialTokens: body.skip_special_tokens ?? true,
  };
}

/** With tools and no `tool_choice` the tools are rendered and the reply stays text. */
function checkTools(body: ChatCompletionRequest): void {
  const choice = body.tool_choice;
  if (choice === undefined || choice === null || choice === 'none') return;
  if (!body.tools) throw conflict('tool_choice', '`tool_choice` is only allowed with `tools`');
  if (typeof choice === 'object' && !body.tools.some((tool) => tool.function.name === choice.function.name)) {
    throw conflict(
      'tool_choice.function.name',
      `\`tool_choice\` names the function \`${choice.function.name}\`, which is not among \`tools\``,
    );
  }
  throw new RequestError('request.unsupported', '`tool_choice` other than "none" is not supported yet', {
    param: 'tool_choice',
  });
}

function countedLogprobs(body: ChatCompletionRequest, format: AnswerFormat): number | null {
  const top = body.top_logprobs ?? 0;
  if (top === -1)
    throw new RequestError(
      'request.unsupported',
      `\`top_logprobs\` -1, the whole vocabulary, is not supported; the largest value is ${MAX_TOP_LOGPROBS}`,
      { param: 'top_logprobs' },
    );
  if (top !== 0 && !format.hasLogprobs)
    throw conflict('top_logprobs', '`top_logprobs` is only allowed with `logprobs: true`');
  return format.hasLogprobs ? top : null;
}

function requestedTokens(body: ChatCompletionRequest): RequestedTokens | null {
  if (typeof body.max_completion_tokens === 'number')
    return { field: 'max_completion_tokens', value: body.max_completion_tokens };
  return typeof body.max_tokens === 'number' ? { field: 'max_tokens', value: body.max_tokens } : null;
}

function samplingTemperature(temperature: number): number {
  return temperature === 0 ? 0 : Math.max(temperature, MIN_TEMPERATURE);
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

export function conflict(param: string, message: string): RequestError {
  return new RequestError('request.conflict', message, { param });
}

export function notSupported(field: string): RequestError {
  return new RequestError('request.unsupported', `\`${field}\` is not supported yet`, { param: field });
}
