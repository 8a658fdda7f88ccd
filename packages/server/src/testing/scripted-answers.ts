import { DEFAULT_CHAT_PROMPT, DEFAULT_GENERATE } from '@trainyard/generation';
import type { ChatCompletion, ChatCompletionChunk } from '@trainyard/protocol';

import type { InferenceRequest } from '../seams/contract/backends.ts';
import { toOrderedJson } from '../seams/json/ordered-json.ts';
import { collectAnswer } from '../gateway/forms/chat/answer.ts';
import { toChunks } from '../gateway/forms/chat/chunks.ts';
import { openGeneration } from '../seams/streams/chat-events.ts';
import type { AnswerFormat } from '../gateway/forms/chat/request.ts';
import { answerFault, eventFault, operationOf } from './documented-answers.ts';
import { replies, type ScriptedEnd, ScriptedInference, type ScriptedStep } from './scripted-inference.ts';

/** Sampled tokens, and the format of their answer. */
export interface ScriptedChat {
  steps: readonly ScriptedStep[];
  end?: ScriptedEnd;
  /** Default 1. */
  n?: number;
  /** Top entries of every logprob. Default null = none. */
  logprobs?: number | null;
  format?: Partial<AnswerFormat>;
}

const FORMAT: AnswerFormat = {
  policyStep: null,
  hasLogprobs: false,
  hasTokensAsIds: false,
  hasTokenIds: false,
  hasPromptTokenIds: false,
  hasPromptText: false,
  role: 'assistant',
  echo: null,
  toolChoice: 'none',
  isRecorded: false,
  hasReasoning: true,
  hasReasoningContent: false,
  streamInterval: 1,
  stream: null,
};
const IDENTITY = { id: 'chatcmpl-1', created: 1, model: 'tiny/base', fingerprint: 'trainyard-base' };
const OPERATION = operationOf('POST', '/v1/chat/completions');
if (OPERATION === undefined) throw new Error('the document has no chat completions');

/** Whole answer as text. The OpenAPI document must describe it. */
export async function answerTextOf(chat: ScriptedChat): Promise<string> {
  const { generation, format, n } = await open(chat);
  const text = toOrderedJson(await collectAnswer(generation, IDENTITY, format, n));
  refuse(OPERATION && answerFault(OPERATION, 200, JSON.parse(text)), text);
  return text;
}

export async function answerOf(chat: ScriptedChat): Promise<ChatCompletion> {
  return JSON.parse(await answerTextOf(chat)) as ChatCompletion;
}

/** Chunks of the answer as a client reads them. The OpenAPI document must describe each. */
export async function chunksOf(chat: ScriptedChat): Promise<ChatCompletionChunk[]> {
  const { generation, format, n } = await open(chat);
  const chunks: ChatCompletionChunk[] = [];
  for await (const chunk of toChunks(generation, IDENTITY, format, n)) {
    const text = JSON.stringify(chunk);
    chunks.push(JSON.parse(text) as ChatCompletionChunk);
    refuse(OPERATION && eventFault(OPERATION, chunks.at(-1)), text);
  }
  return chunks;
}

/** `choices[0]` of the chunks after the role chunks. */
export async function outputsOf(chat: ScriptedChat): Promise<ChatCompletionChunk['choices']> {
  const chunks = await chunksOf(chat);
  return chunks.slice(chat.n ?? 1).flatMap((chunk) => chunk.choices);
}

async function open({ steps, end, n = 1, logprobs = null, format }: ScriptedChat) {
  const inference = new ScriptedInference();
  inference.script = (request) => replies(request, steps, end);
  const whole = { ...FORMAT, hasLogprobs: logprobs !== null, ...format };
  const { signal } = new AbortController();
  const generation = await openGeneration(
    inference,
    { ...SCRIPTED_REQUEST, n, logprobs },
    { promptTokens: 0, completionTokens: 0 },
    { signal, withPromptText: whole.hasPromptText },
  );
  return { generation, format: whole, n };
}

function refuse(fault: string | null | undefined, text: string): void {
  if (fault) throw new Error(`${fault}\n${text}`);
}

export const SCRIPTED_REQUEST: InferenceRequest = {
  ...DEFAULT_GENERATE,
  adapter: null,
  requestId: 'scripted',
  tenant: 'acme',
  prompt: { ...DEFAULT_CHAT_PROMPT, messages: [] },
};
