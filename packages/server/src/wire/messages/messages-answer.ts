import type { Usage } from '@trainyard/generation';
import type { Message, MessageEvent, MessageReplyBlock, MessageStopReason, MessageUsage } from '@trainyard/protocol';

import type { AnswerIdentity } from '../chat/chat-answer.ts';
import { type BlockEvent, collectBlocks, type ReplyBlock, type ReplyEnd } from '../reply-blocks.ts';

/** Fields of an answer besides its blocks. */
export interface MessageFormat {
  identity: AnswerIdentity;
  contextLength: number;
  /** Tokens of the prompt. */
  promptTokens: number;
  cachedTokens: number;
}

/** The whole answer. */
export async function collectMessage(events: AsyncIterable<BlockEvent>, format: MessageFormat): Promise<Message> {
  const { blocks, end } = await collectBlocks(events);
  return {
    ...opening(format),
    content: blocks.map(({ block, text }) => toReplyBlock(block, text)),
    ...ending(end, format),
    usage: toUsage(end.usage),
    ...(end.recordId === null ? {} : { record_id: end.recordId }),
  };
}

/** The answer as the events of a stream. */
export async function* toMessageEvents(
  events: AsyncIterable<BlockEvent>,
  format: MessageFormat,
): AsyncGenerator<MessageEvent, void> {
  yield { type: 'message_start', message: opening(format) };
  for await (const event of events) {
    switch (event.kind) {
      case 'opened':
        yield { type: 'content_block_start', index: event.index, content_block: toReplyBlock(event.block, '') };
        break;
      case 'grown':
        yield { type: 'content_block_delta', index: event.index, delta: toDelta(event.block, event.text) };
        break;
      case 'closed':
        yield { type: 'content_block_stop', index: event.index };
        break;
      case 'ended': {
        const recorded = event.recordId === null ? {} : { record_id: event.recordId };
        yield { type: 'message_delta', delta: { ...ending(event, format), ...recorded }, usage: toUsage(event.usage) };
        yield { type: 'message_stop' };
        break;
      }
      default:
        event satisfies never;
    }
  }
}

function opening({ identity, promptTokens, cachedTokens }: MessageFormat): Message {
  return {
    id: identity.id,
    type: 'message',
    role: 'assistant',
    model: identity.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    stop_details: null,
    container: null,
    usage: toUsage({ promptTokens, cachedTokens, completionTokens: 0 }),
    system_fingerprint: identity.fingerprint,
  };
}

function toReplyBlock(block: ReplyBlock, text: string): MessageReplyBlock {
  switch (block.kind) {
    case 'text':
      return { type: 'text', text, citations: null };
    case 'reasoning':
      return { type: 'thinking', thinking: text, signature: '' };
    case 'call':
      return { type: 'tool_use', id: block.id, name: block.name, input: toInput(text) };
    default:
      return block satisfies never;
  }
}

/** Arguments that were cut off are no JSON; `stop_reason` tells it. */
function toInput(text: string): Record<string, unknown> {
  try {
    const input: unknown = JSON.parse(text);
    return typeof input === 'object' && input !== null && !Array.isArray(input) ? { ...input } : {};
  } catch {
    return {};
  }
}

function toDelta(block: ReplyBlock, text: string): Extract<MessageEvent, { type: 'content_block_delta' }>['delta'] {
  switch (block.kind) {
    case 'text':
      return { type: 'text_delta', text };
    case 'reasoning':
      return { type: 'thinking_delta', thinking: text };
    case 'call':
      return { type: 'input_json_delta', partial_json: text };
    default:
      return block satisfies never;
  }
}

function ending(
  end: ReplyEnd,
  { contextLength }: MessageFormat,
): { stop_reason: MessageStopReason; stop_sequence: string | null } {
  const { promptTokens, completionTokens } = end.usage;
  if (end.finishReason === 'length') {
    const isContextFull = promptTokens + completionTokens >= contextLength;
    return { stop_reason: isContextFull ? 'model_context_window_exceeded' : 'max_tokens', stop_sequence: null };
  }
  if (end.hasCalls) return { stop_reason: 'tool_use', stop_sequence: null };
  const isStopString = typeof end.stopReason === 'string' && end.finishReason === 'stop';
  return isStopString
    ? { stop_reason: 'stop_sequence', stop_sequence: String(end.stopReason) }
    : { stop_reason: 'end_turn', stop_sequence: null };
}

function toUsage({ promptTokens, completionTokens, cachedTokens, reasoningTokens }: Usage): MessageUsage {
  return {
    input_tokens: promptTokens - cachedTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cachedTokens,
    output_tokens: completionTokens,
    output_tokens_details: reasoningTokens === undefined ? null : { thinking_tokens: reasoningTokens },
    service_tier: 'standard',
  };
}
