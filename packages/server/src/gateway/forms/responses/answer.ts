import { randomUUID } from 'node:crypto';

import type { Usage } from '@trainyard/generation';
import {
  type OutputText,
  type Response,
  type ResponseEvent,
  type ResponseOutputItem,
  type ResponsesRequest,
  type ResponseStatus,
  type ResponseTool,
  ResponseToolSchema,
  type ResponseUsage,
  type TokenLogprobEntry,
} from '@trainyard/protocol';

import type { AnswerIdentity } from '../shared/collected-choices.ts';
import { toChoiceLogprobs } from '../shared/logprobs.ts';
import { carryReasoning } from '../shared/carried-reasoning.ts';
import { CARRIED_REASONING } from './request.ts';
import { type BlockEvent, collectBlocks, type ReplyBlock, type ReplyEnd } from '../shared/reply-blocks.ts';
import type { AnswerFacts } from './kept-items.ts';
import { type ClientTool, toInput } from './tools.ts';

export interface ResponseFormat {
  identity: AnswerIdentity;
  body: ResponsesRequest;
  hasLogprobs: boolean;
  facts: AnswerFacts;
  toolOf: (name: string) => ClientTool;
  /** Milliseconds since the epoch. */
  clock: () => number;
}

type Logprobs = Extract<BlockEvent, { kind: 'closed' }>['logprobs'];

export async function collectResponse(events: AsyncIterable<BlockEvent>, format: ResponseFormat): Promise<Response> {
  const { blocks, end } = await collectBlocks(events);
  const output = blocks.map(({ block, text, logprobs }, index) => {
    // Only the last one can be truncated.
    const status = end.finishReason === 'length' && index === blocks.length - 1 ? 'incomplete' : 'completed';
    return toItem({ block, id: itemId(block, format), status }, { text, logprobs }, format);
  });
  return finished(output, end, format);
}

/** Final answer of a failed stream, which is not kept. */
export function failedResponse(error: { code: string; message: string }, format: ResponseFormat): Response {
  return { ...openingAnswer(format), status: 'failed', error, store: false };
}

type Unnumbered<Event> = Event extends unknown ? Omit<Event, 'sequence_number'> : never;

/** Converts the answer to the events of a stream. @param next returns the next number */
export async function* toResponseEvents(
  events: AsyncIterable<BlockEvent>,
  format: ResponseFormat,
  next: () => number,
): AsyncGenerator<ResponseEvent, void> {
  for await (const event of unnumbered(events, format)) yield { ...event, sequence_number: next() } as ResponseEvent;
}

async function* unnumbered(
  events: AsyncIterable<BlockEvent>,
  format: ResponseFormat,
): AsyncGenerator<Unnumbered<ResponseEvent>, void> {
  const begun = openingAnswer(format);
  yield { type: 'response.created', response: begun };
  yield { type: 'response.in_progress', response: begun };
  const output: ResponseOutputItem[] = [];
  let id = '';
  // The end of an item needs its status, which is known at the end of the reply.
  let last: Extract<BlockEvent, { kind: 'closed' }> | null = null;
  const done = (status: ResponseStatus): Unnumbered<ResponseEvent>[] => {
    if (last === null) return [];
    const { block, text, logprobs, index } = last;
    const item = toItem({ block, id, status }, { text, logprobs }, format);
    output.push(item);
    last = null;
    return [{ type: 'response.output_item.done', output_index: index, item }];
  };
  for await (const event of events) {
    switch (event.kind) {
      case 'opened': {
        yield* done('completed');
        const { block, index } = event;
        id = itemId(block, format);
        yield {
          type: 'response.output_item.added',
          output_index: index,
          item: toItem({ block, id, status: 'in_progress' }, null, format),
        };
        if (block.kind !== 'call')
          yield { type: 'response.content_part.added', ...placeOf(id, index), part: toPart(block, '', []) };
        if (isSummarized(block, format))
          yield { type: 'response.reasoning_summary_part.added', ...summaryPlace(id, index), part: toSummary('') };
        break;
      }
      case 'grown':
        // A custom tool's input is inside the JSON that the model writes, and is sent once complete.
        if (!isCustom(event.block, format)) yield toDelta(event, id, format);
        if (isSummarized(event.block, format)) {
          const delta = { ...summaryPlace(id, event.index), delta: event.text };
          yield { type: 'response.reasoning_summary_text.delta', ...delta };
        }
        break;
      case 'closed':
        yield* toDone(event, id, format);
        last = event;
        break;
      case 'ended': {
        const isCut = event.finishReason === 'length';
        yield* done(isCut ? 'incomplete' : 'completed');
        const response = finished(output, event, format);
        yield { type: isCut ? 'response.incomplete' : 'response.completed', response };
        break;
      }
      default:
        event satisfies never;
    }
  }
}

function toDelta(
  { block, text, index, logprobs }: Extract<BlockEvent, { kind: 'grown' }>,
  id: string,
  format: ResponseFormat,
): Unnumbered<ResponseEvent> {
  if (block.kind === 'call')
    return { type: 'response.function_call_arguments.delta', item_id: id, output_index: index, delta: text };
  if (block.kind === 'reasoning') return { type: 'response.reasoning_text.delta', ...placeOf(id, index), delta: text };
  const entries = entriesOf(logprobs, format);
  return { type: 'response.output_text.delta', ...placeOf(id, index), delta: text, logprobs: entries };
}

function* toDone(
  { block, text, index, logprobs }: Extract<BlockEvent, { kind: 'closed' }>,
  id: string,
  format: ResponseFormat,
): Generator<Unnumbered<ResponseEvent>, void> {
  if (block.kind === 'call') {
    const { name } = format.toolOf(block.name);
    const place = { item_id: id, output_index: index };
    if (isCustom(block, format)) {
      const input = toInput(text);
      if (input !== '') yield { type: 'response.custom_tool_call_input.delta', ...place, delta: input };
      yield { type: 'response.custom_tool_call_input.done', ...place, input };
    } else yield { type: 'response.function_call_arguments.done', ...place, name, arguments: text };
    return;
  }
  const entries = entriesOf(logprobs, format);
  if (block.kind === 'reasoning') yield { type: 'response.reasoning_text.done', ...placeOf(id, index), text };
  else yield { type: 'response.output_text.done', ...placeOf(id, index), text, logprobs: entries };
  yield { type: 'response.content_part.done', ...placeOf(id, index), part: toPart(block, text, entries) };
  if (!isSummarized(block, format)) return;
  yield { type: 'response.reasoning_summary_text.done', ...summaryPlace(id, index), text };
  yield { type: 'response.reasoning_summary_part.done', ...summaryPlace(id, index), part: toSummary(text) };
}

function placeOf(id: string, index: number): { item_id: string; output_index: number; content_index: 0 } {
  return { item_id: id, output_index: index, content_index: 0 };
}

function summaryPlace(id: string, index: number): { item_id: string; output_index: number; summary_index: 0 } {
  return { item_id: id, output_index: index, summary_index: 0 };
}

const ID_PREFIXES = { reasoning: 'rs', text: 'msg', call: 'fc' } as const;

function itemId(block: ReplyBlock, format: ResponseFormat): string {
  const prefix = isCustom(block, format) ? 'ctc' : ID_PREFIXES[block.kind];
  return `${prefix}_${randomUUID().replaceAll('-', '')}`;
}

/** @param written null = the item has just started, and has no parts yet */
function toItem(
  { block, id, status }: { block: ReplyBlock; id: string; status: ResponseStatus },
  written: { text: string; logprobs: Logprobs } | null,
  format: ResponseFormat,
): ResponseOutputItem {
  const text = written?.text ?? '';
  switch (block.kind) {
    case 'call': {
      const { kind, name, namespace } = format.toolOf(block.name);
      const call = { id, call_id: block.id, name, ...(namespace === null ? {} : { namespace }), status };
      return kind === 'custom'
        ? { type: 'custom_tool_call', ...call, input: toInput(text) }
        : { type: 'function_call', ...call, arguments: text };
    }
    case 'reasoning': {
      const isCarried = written !== null && (format.body.include?.includes(CARRIED_REASONING) ?? false);
      const content = written === null ? [] : [{ type: 'reasoning_text' as const, text }];
      const summary = written !== null && isSummarized(block, format) ? [toSummary(text)] : [];
      const carried = isCarried ? carryReasoning(text) : null;
      return { type: 'reasoning', id, status, summary, content, encrypted_content: carried };
    }
    case 'text': {
      const content = written === null ? [] : [toOutputText(text, entriesOf(written.logprobs, format))];
      return { type: 'message', id, role: 'assistant', status, content };
    }
    default:
      return block satisfies never;
  }
}

function isCustom(block: ReplyBlock, { toolOf }: ResponseFormat): boolean {
  return block.kind === 'call' && toolOf(block.name).kind === 'custom';
}

/** If a summary is requested, clients read reasoning only there, so it contains all of it. */
function isSummarized({ kind }: ReplyBlock, { body: { reasoning = null } }: ResponseFormat): boolean {
  return kind === 'reasoning' && (reasoning?.summary ?? reasoning?.generate_summary ?? null) !== null;
}

function toSummary(text: string): { type: 'summary_text'; text: string } {
  return { type: 'summary_text', text };
}

function toPart(
  block: Exclude<ReplyBlock, { kind: 'call' }>,
  text: string,
  logprobs: TokenLogprobEntry[],
): OutputText | { type: 'reasoning_text'; text: string } {
  return block.kind === 'reasoning' ? { type: 'reasoning_text', text } : toOutputText(text, logprobs);
}

function toOutputText(text: string, logprobs: TokenLogprobEntry[]): OutputText {
  return { type: 'output_text', text, annotations: [], logprobs };
}

function entriesOf(logprobs: Logprobs, { hasLogprobs }: ResponseFormat): TokenLogprobEntry[] {
  return hasLogprobs ? (toChoiceLogprobs(logprobs, false)?.content ?? []) : [];
}

/** The answer before its first item, with the effective settings of the request. */
export function openingAnswer({ identity, body, facts }: ResponseFormat): Response {
  const { reasoning = null, text = null } = body;
  return {
    id: identity.id,
    object: 'response',
    created_at: identity.created,
    completed_at: null,
    status: 'in_progress',
    error: null,
    incomplete_details: null,
    instructions: body.instructions ?? null,
    model: identity.model,
    output: [],
    usage: null,
    system_fingerprint: identity.fingerprint,
    max_output_tokens: body.max_output_tokens ?? null,
    temperature: body.temperature ?? 1,
    top_p: body.top_p ?? 1,
    top_logprobs: body.top_logprobs ?? 0,
    tools: (body.tools ?? []).map(echoed),
    tool_choice: body.tool_choice ?? 'auto',
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    text: { format: text?.format ?? { type: 'text' } },
    reasoning: {
      effort: reasoning?.effort ?? null,
      summary: reasoning?.summary ?? reasoning?.generate_summary ?? null,
    },
    metadata: body.metadata ?? {},
    store: facts.isKept,
    background: facts.isBackground,
    previous_response_id: facts.previousId,
    conversation: facts.conversationId === null ? null : { id: facts.conversationId },
    truncation: body.truncation ?? 'disabled',
    service_tier: 'default',
    user: body.user ?? null,
    safety_identifier: body.safety_identifier ?? null,
    prompt_cache_key: body.prompt_cache_key ?? null,
  };
}

/** A tool as sent, without members outside the form, which had no effect. */
function echoed(tool: ResponseTool): ResponseTool {
  const members = Object.entries(tool).filter(([name]) => Object.hasOwn(ResponseToolSchema.properties, name));
  return Object.fromEntries(members) as ResponseTool;
}

function finished(output: ResponseOutputItem[], end: ReplyEnd, format: ResponseFormat): Response {
  const isCut = end.finishReason === 'length';
  return {
    ...openingAnswer(format),
    completed_at: isCut ? null : Math.floor(format.clock() / 1000),
    status: isCut ? 'incomplete' : 'completed',
    incomplete_details: isCut ? { reason: 'max_output_tokens' } : null,
    output,
    usage: toUsage(end.usage),
    ...(end.recordId === null ? {} : { record_id: end.recordId }),
  };
}

function toUsage({ promptTokens, completionTokens, cachedTokens, reasoningTokens = 0 }: Usage): ResponseUsage {
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: 0 },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: promptTokens + completionTokens,
  };
}
