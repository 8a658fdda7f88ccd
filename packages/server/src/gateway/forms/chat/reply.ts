import type { FinishReason } from '@trainyard/backend';
import type { AssistantMessage, ChunkDelta, ToolCallDeltaEntry, WireFinishReason } from '@trainyard/protocol';

import type { OutputEvent, ParsedReply, ReplyDelta } from '../../../seams/streams/chat-events.ts';
import type { AnswerFormat } from './request.ts';

/** A reply in wire form: whole, or the addition of one chunk. */

/** @param reply `parsed`: null for an unparsed reply */
export function toMessage(
  { text, parsed }: { text: readonly string[]; parsed: ParsedReply | null },
  format: AnswerFormat,
): AssistantMessage {
  const content = parsed === null ? text.join('') : parsed.content;
  const calls = parsed?.toolCalls ?? [];
  const reasoning = format.hasReasoning ? (parsed?.reasoning ?? null) : null;
  return {
    role: format.role,
    content: format.echo === null ? content : format.echo + (content ?? ''),
    refusal: null,
    annotations: null,
    audio: null,
    function_call: null,
    ...(calls.length > 0
      ? { tool_calls: calls.map(({ id, ...called }) => ({ id, type: 'function' as const, function: called })) }
      : {}),
    reasoning,
    ...(format.hasReasoningContent ? { reasoning_content: reasoning } : {}),
  };
}

/** Only additions of the event have a key; unparsed text always has `content`. */
export function toDelta({ reply, text }: OutputEvent, format: AnswerFormat): ChunkDelta {
  if (reply === undefined) return { content: text };
  const { content, reasoning, toolCalls } = reply;
  const delta: ChunkDelta = {};
  if (content !== '') delta.content = content;
  else if (toolCalls.length > 0) delta.content = null;
  if (reasoning !== '' && format.hasReasoning) {
    delta.reasoning = reasoning;
    if (format.hasReasoningContent) delta.reasoning_content = reasoning;
  }
  if (toolCalls.length > 0) delta.tool_calls = toolCalls.map((call) => toCallDelta(call, format.toolChoice));
  return delta;
}

/**
 * Calls that the model chose start with only their name; calls that the request forced always have arguments.
 */
function toCallDelta(
  call: ReplyDelta['toolCalls'][number],
  toolChoice: AnswerFormat['toolChoice'],
): ToolCallDeltaEntry {
  const { index, id, name, arguments: fragment } = call;
  const isForced = toolChoice === 'required' || toolChoice === 'named';
  if (id === undefined || name === undefined)
    return { index, function: { ...(toolChoice === 'required' ? { name: null } : {}), arguments: fragment } };
  const isNameAlone = fragment === '' && !isForced;
  return { index, id, type: 'function', function: { name, ...(isNameAlone ? {} : { arguments: fragment }) } };
}

/**
 * Finish reason of a reply: `tool_calls` if it stopped by itself and has calls that the request did not name.
 */
export function toFinishReason(
  { finishReason, parsed }: { finishReason: FinishReason; parsed: ParsedReply | null },
  format: AnswerFormat,
): WireFinishReason {
  const hasCalls = (parsed?.toolCalls.length ?? 0) > 0;
  return hasCalls && finishReason === 'stop' && format.toolChoice !== 'named' ? 'tool_calls' : finishReason;
}

/**
 * True if tokens and logprobs would reveal hidden reasoning of the reply.
 * @param isRead the reply was parsed into parts
 */
export function hidesTokens(format: AnswerFormat, isRead: boolean): boolean {
  return !format.hasReasoning && isRead;
}
