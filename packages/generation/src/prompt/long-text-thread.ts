/**
 * Main module of the thread that renders long chats and encodes long texts. Each message is one of them and
 * gets one answer before the next is sent.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { asEngineError, type EngineFailure, toFailure } from '@trainyard/backend';
import { LlamaModel } from '@trainyard/native';
import { ChatTemplate, Tokenizer, TokenizerError } from '@trainyard/tokenizer';
import type { ChatPrompt } from '../contract/generate-request.ts';
import { renderChat, type RenderedChat } from './chat.ts';
import { requestTemplates } from './request-templates.ts';

export interface LongTextThreadData {
  readonly modelPath: string;
  /** See `TextHalfOptions`. */
  readonly allowsControlTokens: boolean;
  readonly runsRequestTemplates: boolean;
}

export type LongTextQuestion =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'chat'; readonly prompt: ChatPrompt };

export type LongTextAnswer =
  | { readonly kind: 'ids'; readonly ids: Int32Array<ArrayBuffer> }
  | { readonly kind: 'rendered'; readonly rendered: RenderedChat & { readonly tokenIds: Int32Array<ArrayBuffer> } }
  /** Refusal of the text by the tokenizer. */
  | { readonly kind: 'refused'; readonly code: TokenizerError['code']; readonly message: string }
  | { readonly kind: 'failed'; readonly failure: EngineFailure };

const port = parentPort;
if (port === null) throw new Error('the thread is started by LongTexts, not by hand');
const { modelPath, allowsControlTokens, runsRequestTemplates } = workerData as LongTextThreadData;
const model = LlamaModel.load(modelPath, { vocabOnly: true });
const tokenizer = Tokenizer.fromModel(model);
const { chatTemplate: source } = model;
const template = source === undefined ? null : new ChatTemplate(tokenizer, source, { allowsControlTokens });
const templateSandbox = runsRequestTemplates ? requestTemplates(tokenizer, { allowsControlTokens }) : null;
const { signal } = new AbortController();

port.on('message', async (question: LongTextQuestion) => {
  const answer = question.kind === 'text' ? encode(question.text) : await render(question.prompt);
  if (answer.kind === 'ids') port.postMessage(answer, [answer.ids.buffer]);
  else if (answer.kind === 'rendered') port.postMessage(answer, [answer.rendered.tokenIds.buffer]);
  else port.postMessage(answer);
});

/** @throws errors other than a refusal of the text: they end the thread */
function encode(text: string): LongTextAnswer {
  try {
    // A copy in its own buffer, which can be transferred.
    return { kind: 'ids', ids: Int32Array.from(tokenizer.encodeWithSpecial(text)) };
  } catch (error) {
    if (!(error instanceof TokenizerError)) throw error;
    return { kind: 'refused', code: error.code, message: error.message };
  }
}

async function render(prompt: ChatPrompt): Promise<LongTextAnswer> {
  try {
    const rendered = await renderChat(prompt, { template, templateSandbox }, signal);
    return { kind: 'rendered', rendered: { ...rendered, tokenIds: Int32Array.from(rendered.tokenIds) } };
  } catch (error) {
    return { kind: 'failed', failure: toFailure(asEngineError(error)) };
  }
}
