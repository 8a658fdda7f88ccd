import type { Usage } from '@trainyard/generation';
import type { Message, MessageEvent, MessageReplyBlock, MessageStopReason, MessageUsage } from '@trainyard/protocol';

import { isObject } from '../../../seams/json/is-object.ts';
import { JsonText } from '../../../seams/json/ordered-json.ts';
import type { AnswerIdentity } from '../shared/collected-choices.ts';
import { type BlockEvent, collectBlocks, type ReplyBlock, type ReplyEnd } from '../shared/reply-blocks.ts';
import { carryReasoning } from '../shared/carried-reasoning.ts';

/** Fields of an answer other than its blocks. */
export interface MessageFormat {
  identity: AnswerIdentity;
  contextLength: number;
  promptTokens: number;
  cachedTokens: number;
  /** Future record id of the reply; null = none is kept. */
  recordId: string | null;
  /** Thoughts appear only in their signatures, so that clients can send them back. */
  omitsThoughts: boolean;
  /** The request had edits of the conversation, which had no effect. */
  hasEdits: boolean;
}

type ToolUse = Extract<MessageReplyBlock, { type: 'tool_use' }>;
type WholeBlock = Exclude<MessageReplyBlock, ToolUse> | (Omit<ToolUse, 'input'> & { input: JsonText });

/** A `Message` that keeps inputs as the model wrote them in `toOrderedJson`. */
type WholeMessage = Omit<Message, 'content'> & { content: WholeBlock[] };

export async function collectMessage(events: AsyncIterable<BlockEvent>, format: MessageFormat): Promise<WholeMessage> {
  const { blocks, end } = await collectBlocks(events);
  return {
    ...opening(format),
    content: blocks.map(({ block, text }) => toWholeBlock(block, text, format)),
    ...ending(end, format),
    usage: toUsage(end.usage),
    ...edits(format),
    ...(end.recordId === null ? {} : { record_id: end.recordId }),
  };
}

/** Converts the answer to the events of a stream. */
export async function* toMessageEvents(
  events: AsyncIterable<BlockEvent>,
  format: MessageFormat,
): AsyncGenerator<MessageEvent, void> {
  // Sent in the first event: clients that assemble a message keep only known fields of its end.
  const recorded = format.recordId === null ? {} : { record_id: format.recordId };
  yield { type: 'message_start', message: { ...opening(format), ...recorded } };
  for await (const event of events) {
    switch (event.kind) {
      case 'opened':
        yield { type: 'content_block_start', index: event.index, content_block: emptyBlock(event.block) };
        break;
      case 'grown':
        if (event.block.kind !== 'call' && !(format.omitsThoughts && event.block.kind === 'reasoning'))
          yield { type: 'content_block_delta', index: event.index, delta: toDelta(event.block.kind, event.text) };
        break;
      case 'closed':
        if (event.block.kind === 'reasoning') {
          const { signature } = toThinking(event.text, format);
          yield { type: 'content_block_delta', index: event.index, delta: { type: 'signature_delta', signature } };
        }
        // Only now is it known that the input is an object. Without a delta the client keeps the `{}` of the
        // block.
        if (event.block.kind === 'call' && isObjectText(event.text)) {
          const delta = { type: 'input_json_delta' as const, partial_json: event.text };
          yield { type: 'content_block_delta', index: event.index, delta };
        }
        yield { type: 'content_block_stop', index: event.index };
        break;
      case 'ended': {
        const kept = event.recordId === null ? {} : { record_id: event.recordId };
        const delta = { ...ending(event, format), stop_details: null, container: null, ...kept };
        yield { type: 'message_delta', delta, usage: toUsage(event.usage), ...edits(format) };
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

function emptyBlock(block: ReplyBlock): MessageReplyBlock {
  switch (block.kind) {
    case 'call':
      return { type: 'tool_use', id: block.id, name: block.name, input: {} };
    case 'reasoning':
      return { type: 'thinking', thinking: '', signature: '' };
    case 'text':
      return { type: 'text', text: '', citations: null };
    default:
      return block satisfies never;
  }
}

function toWholeBlock(block: ReplyBlock, text: string, format: MessageFormat): WholeBlock {
  switch (block.kind) {
    case 'call':
      return { type: 'tool_use', id: block.id, name: block.name, input: toInput(text) };
    case 'reasoning':
      return toThinking(text, format);
    case 'text':
      return { type: 'text', text, citations: null };
    default:
      return block satisfies never;
  }
}

/**
 * Clients only send back signed thoughts. Nothing is signed here, because thoughts of any origin are
 * accepted; a hidden thought is in its signature.
 */
function toThinking(text: string, { omitsThoughts }: MessageFormat) {
  const [thinking, signature] = omitsThoughts ? ['', carryReasoning(text)] : [text, 'unsigned'];
  return { type: 'thinking' as const, thinking, signature };
}

function edits({ hasEdits }: MessageFormat): { context_management?: { applied_edits: [] } } {
  return hasEdits ? { context_management: { applied_edits: [] } } : {};
}

/** Arguments as written; `{}` for a truncated call, which `stop_reason` reports. */
function toInput(text: string): JsonText {
  return new JsonText(isObjectText(text) ? text : '{}');
}

function isObjectText(text: string): boolean {
  try {
    return isObject(JSON.parse(text));
  } catch {
    return false;
  }
}

function toDelta(
  kind: 'text' | 'reasoning',
  text: string,
): Extract<MessageEvent, { type: 'content_block_delta' }>['delta'] {
  return kind === 'text' ? { type: 'text_delta', text } : { type: 'thinking_delta', thinking: text };
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
