import { type ChatCompletionRequest, messageFaults, quoting } from '@trainyard/protocol';

import type { InferenceRequest } from '../../../seams/contract/backends.ts';
import type { ResolvedModel } from '../../../seams/contract/model-names.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import { hasMoreValuesThan } from '../../../seams/json/value-count.ts';
import { conflict, named } from '../shared/conflict.ts';
import { countedEntries } from '../shared/logprob-limit.ts';
import { messageText } from './message-text.ts';
import { checkPromptSize } from './prompt-size.ts';
import {
  checkSharedFields,
  isRecordable,
  type RequestContext,
  type RequestedTokens,
  type StreamFormat,
  streamFormatOf,
  toGenerateRequest,
} from '../shared/sampling-request.ts';
import { promptParts } from '../../../seams/chat/written-values.ts';
import { answerToolChoice, checkTools, replyReading, type ReportedToolChoice } from './tool-request.ts';

/** Format of the answer; the engine does not need it. */
export interface AnswerFormat {
  /**
   * The step that samples; null for a model not trained here. Prompts of trained models are rendered as in
   * training.
   */
  policyStep: number | null;
  hasLogprobs: boolean;
  /** Logprob entries show tokens as `token_id:N`. */
  hasTokensAsIds: boolean;
  hasTokenIds: boolean;
  hasPromptTokenIds: boolean;
  /** `prompt_text`, with `return_prompt_text`. */
  hasPromptText: boolean;
  /** Role of the replies: the last message's if no generation prompt is added, else `assistant`. */
  role: string;
  /** With `echo`, the text of the last message, before every reply; null = none. */
  echo: string | null;
  /** True if the samples are recorded, with an id in each choice. */
  isRecorded: boolean;
  toolChoice: ReportedToolChoice;
  /** False: omits reasoning, and the tokens and logprobs of replies that may contain it. */
  hasReasoning: boolean;
  /** Adds the reasoning under its older name `reasoning_content`, too. */
  hasReasoningContent: boolean;
  /** Minimum tokens of a choice per stream chunk, at least 1. */
  streamInterval: number;
  /** Null = one JSON answer. */
  stream: StreamFormat | null;
}

/**
 * Maximum items and members of one field for templates, at all levels: the host, whose steps others wait for,
 * reads this many in tens of milliseconds. Tools of a megabyte have about 70,000.
 */
const MAX_TEMPLATE_VALUES = 131_072;
const TEMPLATE_FIELDS = ['tools', 'documents', 'chat_template_kwargs'] as const;

/** Template variables that would change the rendering itself. */
const FORBIDDEN_TEMPLATE_VARIABLES = ['chat_template', 'tokenize'] as const;

/**
 * Checks that need several fields but no model.
 * @param body passed the schema
 * @throws {RequestError} `request.invalid`, `request.unsupported`, `request.conflict`
 */
export function checkChatRequest(body: ChatCompletionRequest): void {
  checkTemplateInput(body);
  checkSharedFields(body, requestedTokens(body));
  checkTools(body);
  if (body.use_beam_search && (body.thinking_token_budget ?? -1) !== -1)
    throw conflict(
      named('thinking_token_budget'),
      quoting`${named('thinking_token_budget')} is not allowed with ${named('use_beam_search')}`,
    );
  checkOpenEnd(body);
}

/** @throws {RequestError} `request.conflict` */
export function checkOpenEnd(
  body: Pick<ChatCompletionRequest, 'messages' | 'continue_final_message' | 'add_generation_prompt'>,
): void {
  if (!body.continue_final_message) return;
  if (body.add_generation_prompt ?? true)
    throw conflict(
      named('continue_final_message'),
      quoting`${named('continue_final_message')} requires \`add_generation_prompt: false\` (default true): a reply cannot both continue the last message and start a new one`,
    );
  if (body.messages.length === 0)
    throw conflict(
      named('continue_final_message'),
      quoting`${named('continue_final_message')} requires a message, got none`,
    );
}

/** Checks the input of a chat template. @throws {RequestError} `request.invalid`, `request.conflict` */
export function checkTemplateInput(
  body: Pick<ChatCompletionRequest, 'messages' | 'tools' | 'documents' | 'chat_template_kwargs'>,
): void {
  for (const field of TEMPLATE_FIELDS) {
    if (!hasMoreValuesThan(body[field], MAX_TEMPLATE_VALUES)) continue;
    const msg = `Input should hold at most ${MAX_TEMPLATE_VALUES} items and members, those within others included`;
    throw RequestError.invalid([{ loc: ['body', field], msg, type: 'too_long' }]);
  }
  const faults = messageFaults(body.messages);
  if (faults.length > 0) throw RequestError.invalid(faults, { hasNamedItems: true });
  for (const variable of FORBIDDEN_TEMPLATE_VARIABLES) {
    if (body.chat_template_kwargs && Object.hasOwn(body.chat_template_kwargs, variable))
      throw conflict(
        named('chat_template_kwargs'),
        quoting`${named('chat_template_kwargs')} must not contain \`${variable}\``,
      );
  }
}

/** Format with its defaults, which depend on the model. */
export function answerFormatOf(
  body: ChatCompletionRequest,
  model: ResolvedModel,
  options: { hasReasoningContent: boolean; keepsChoiceRecords: boolean },
): AnswerFormat {
  const last = body.messages.at(-1);
  const role = (body.add_generation_prompt ?? true) ? 'assistant' : (last?.role ?? 'assistant');
  // Training needs the sampled tokens with their log-probabilities, and its clients do not request them.
  const isTrained = model.kind === 'checkpoint';
  return {
    policyStep: isTrained ? model.step : null,
    hasLogprobs: body.logprobs ?? isTrained,
    hasTokensAsIds: body.return_tokens_as_token_ids ?? isTrained,
    hasTokenIds: body.return_token_ids ?? isTrained,
    hasPromptTokenIds: body.return_token_ids ?? false,
    hasPromptText: body.return_prompt_text ?? false,
    role,
    isRecorded: isTrained && options.keepsChoiceRecords && isRecordable(body),
    echo: body.echo && last?.role === role ? messageText(last) : null,
    toolChoice: answerToolChoice(body),
    hasReasoning: body.include_reasoning ?? true,
    hasReasoningContent: options.hasReasoningContent,
    streamInterval: body.stream_interval ?? 1,
    stream: streamFormatOf(body),
  };
}

/**
 * Converts a chat to an engine request.
 * @throws {RequestError} `request.conflict` for values that this model does not support
 */
export function toChatGenerateRequest(
  body: ChatCompletionRequest,
  context: RequestContext,
  format: AnswerFormat,
): InferenceRequest {
  checkPromptSize(body.messages, context.contextLength);
  const request = toGenerateRequest(body, context, {
    form: 'chat',
    prompt: {
      kind: 'chat',
      ...promptParts(body, templateVariables(body)),
      addGenerationPrompt: body.add_generation_prompt ?? true,
      continueFinalMessage: body.continue_final_message ?? false,
      addSpecialTokens: body.add_special_tokens ?? false,
      chatTemplate: body.chat_template ?? null,
    },
    maxTokens: requestedTokens(body),
    logprobs: countedLogprobs(body, context, format),
    logprobsField: 'top_logprobs',
  });
  // In vLLM an echo also requests the prompt's logprobs, as many as the reply's. A stream never shows them.
  const askedAs = typeof body.prompt_logprobs === 'number' ? 'prompt_logprobs' : 'top_logprobs';
  const promptLogprobs = body.prompt_logprobs ?? (body.echo ? (body.top_logprobs ?? 0) : null);
  const numPromptLogprobs = promptLogprobs === null ? null : countedEntries(askedAs, promptLogprobs, context);
  return {
    ...request,
    tracesSampling: format.isRecorded,
    promptLogprobs: body.stream ? null : numPromptLogprobs,
    reply: replyReading(body),
  };
}

/** Template variables of a request, from the lowest to the highest precedence. */
export function templateVariables(
  body: Pick<ChatCompletionRequest, 'reasoning_effort' | 'documents' | 'chat_template_kwargs'>,
): readonly (object | null)[] {
  const { reasoning_effort: effort, documents, chat_template_kwargs: others = null } = body;
  return [
    effort ? { enable_thinking: effort !== 'none' } : null,
    others,
    effort ? { reasoning_effort: effort } : null,
    documents ? { documents } : null,
  ];
}

function countedLogprobs(body: ChatCompletionRequest, context: RequestContext, format: AnswerFormat): number | null {
  const top = countedEntries('top_logprobs', body.top_logprobs ?? 0, context);
  if (top !== 0 && !format.hasLogprobs)
    throw conflict(named('top_logprobs'), quoting`${named('top_logprobs')} is only allowed with \`logprobs: true\``);
  return format.hasLogprobs || format.isRecorded ? top : null;
}

function requestedTokens(body: ChatCompletionRequest): RequestedTokens | null {
  if (typeof body.max_completion_tokens === 'number')
    return { field: 'max_completion_tokens', value: body.max_completion_tokens };
  return typeof body.max_tokens === 'number' ? { field: 'max_tokens', value: body.max_tokens } : null;
}
