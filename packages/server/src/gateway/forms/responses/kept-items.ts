import { randomUUID } from 'node:crypto';

import type { Response, ResponseInputItem, ResponsesRequest } from '@trainyard/protocol';

/** Items of a conversation, between a request, its kept answer and later requests. */

/** An item with the id for lists. */
export type KeptItem = ResponseInputItem & { readonly id: string };

export interface AnswerFacts {
  readonly isKept: boolean;
  readonly isBackground: boolean;
  /** Answer that the conversation continues; null for none. */
  readonly previousId: string | null;
  /** Conversation of `/v1/conversations` that it extends; null for none. */
  readonly conversationId: string | null;
}

export function inputItems({ input }: Pick<ResponsesRequest, 'input'>): readonly ResponseInputItem[] {
  return typeof input === 'string' ? [{ type: 'message', role: 'user', content: input }] : (input ?? []);
}

/** Id that an item refers to; null if the item is not a reference. Clients may omit the type of a reference. */
export function referenceOf(item: ResponseInputItem): string | null {
  const { type, id } = item;
  if (typeof id !== 'string') return null;
  if (type === 'item_reference') return id;
  const isBare = Object.entries(item).every(([name, value]) => name === 'id' || value === null || value === undefined);
  return isBare ? id : null;
}

/** Conversation after a kept answer: its prompt and its output. */
export function conversationAfter(kept: { readonly input: string; readonly answer: string }): ResponseInputItem[] {
  const { output } = JSON.parse(kept.answer) as Response;
  return [...(JSON.parse(kept.input) as ResponseInputItem[]), ...output];
}

export function outputOf(kept: { readonly answer: string }): Map<string, ResponseInputItem> {
  const { output } = JSON.parse(kept.answer) as Response;
  return new Map(output.map((item) => [item.id, item]));
}

/** Items in stored form: each with an id, otherwise as sent, so that the next prompt has the same tokens. */
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

/** A kept item in its listed form: with its type, and message content in parts. */
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

export function quoted(id: string): string {
  return JSON.stringify(id.slice(0, 100));
}
