import { randomUUID } from 'node:crypto';

import type { Response, ResponseInputItem, ResponsesRequest } from '@trainyard/protocol';

/** Items of a conversation between a request, its kept answer and the requests after it. */

/** An item with an id, under which it is listed. */
export type KeptItem = ResponseInputItem & { readonly id: string };

/** The facts of an answer that the request decides besides its text. */
export interface AnswerFacts {
  /** Whether the answer is kept. */
  readonly isKept: boolean;
  /** Whether it is computed in the background. */
  readonly isBackground: boolean;
  /** The answer that the conversation continues; null for none. */
  readonly previousId: string | null;
  /** The conversation of `/v1/conversations` that it continues and grows; null for none. */
  readonly conversationId: string | null;
}

/** The input of a request as items. */
export function inputItems({ input }: Pick<ResponsesRequest, 'input'>): readonly ResponseInputItem[] {
  return typeof input === 'string' ? [{ type: 'message', role: 'user', content: input }] : input;
}

/** The id that an item refers to; null for an item that is itself one. Clients may leave the type of a reference out. */
export function referenceOf(item: ResponseInputItem): string | null {
  const { type, id } = item;
  if (typeof id !== 'string') return null;
  if (type === 'item_reference') return id;
  const isBare = Object.entries(item).every(([name, value]) => name === 'id' || value === null || value === undefined);
  return isBare ? id : null;
}

/** The conversation after a kept answer: its prompt and its output. */
export function conversationAfter(kept: { readonly input: string; readonly answer: string }): ResponseInputItem[] {
  const { output } = JSON.parse(kept.answer) as Response;
  return [...(JSON.parse(kept.input) as ResponseInputItem[]), ...output];
}

/** Output items of a kept answer by their ids. */
export function outputOf(kept: { readonly answer: string }): Map<string, ResponseInputItem> {
  const { output } = JSON.parse(kept.answer) as Response;
  return new Map(output.map((item) => [item.id, item]));
}

/** Items as they are kept: each with an id, otherwise as the client sent it, so that the next prompt has the same tokens. */
export function withIds(items: readonly ResponseInputItem[]): KeptItem[] {
  return items.map((item) => (typeof item['id'] === 'string' ? (item as KeptItem) : { ...item, id: newItemId(item) }));
}

const PREFIXES: Readonly<Record<string, string>> = {
  reasoning: 'rs',
  function_call: 'fc',
  function_call_output: 'fco',
  custom_tool_call: 'ctc',
  custom_tool_call_output: 'ctco',
};

function newItemId({ type }: ResponseInputItem): string {
  return `${PREFIXES[String(type)] ?? 'msg'}_${randomUUID().replaceAll('-', '')}`;
}

/** A kept item as a list shows it: with its type, and the content of a message in parts. */
export function toListedItem(item: KeptItem): KeptItem & { type: string } {
  const { content } = item;
  const type = typeof item['type'] === 'string' ? item['type'] : 'message';
  const listed = { ...item, type, id: item.id };
  if (type !== 'message' || typeof content !== 'string') return listed;
  const part =
    item['role'] === 'assistant'
      ? { type: 'output_text', text: content, annotations: [], logprobs: [] }
      : { type: 'input_text', text: content };
  return { ...listed, content: [part] };
}

/** An id of a client, for a message. */
export function quoted(id: string): string {
  return JSON.stringify(id.slice(0, 100));
}
