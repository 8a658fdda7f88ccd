import type { FinishReason } from '@trainyard/backend';
import type { AssistantMessage, ChunkDelta, ToolCallDeltaEntry, WireFinishReason } from '@trainyard/protocol';

import type { OutputEvent, ParsedReply, ReplyDelta } from '../../../seams/streams/chat-events.ts';
import type { AnswerFormat } from './request.ts';

/** A reply as the wire tells it: whole, or what one chunk adds. */

/** @param reply `parsed`: null when it was not read into parts */
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

/** Only what the event adds has a key; a text that was not read into parts always has `content`. */
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

/** Calls that the model chose to make begin with their name alone; calls that the request asked for always tell arguments. */
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

/** The finish reason of a reply: `tool_calls` if it stopped by itself and has calls that the request did not name. */
export function toFinishReason(
  { finishReason, parsed }: { finishReason: FinishReason; parsed: ParsedReply | null },
  format: AnswerFormat,
): WireFinishReason {
  const hasCalls = (parsed?.toolCalls.length ?? 0) > 0;
  return hasCalls && finishReason === 'stop' && format.toolChoice !== 'named' ? 'tool_calls' : finishReason;
}

/** Tokens and logprobs of a reply that may hold hidden reasoning would tell it. @param isRead the reply was read into parts */
export function hidesTokens(format: AnswerFormat, isRead: boolean): boolean {
  return !format.hasReasoning && isRead;
}
