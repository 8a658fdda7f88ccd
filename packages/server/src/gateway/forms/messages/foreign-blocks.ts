import { asksForNothing, type MessageBlockParam, type MessageParam } from '@trainyard/protocol';

import { isObject } from '../../../seams/json/is-object.ts';
import { type LeftOut, leftOutText, mediaOf } from '../../../seams/chat/left-out.ts';

/** A message in a supported form, with its index in the request. */
export interface PlacedMessage {
  readonly message: MessageParam;
  readonly index: number;
}

/**
 * Converts messages of sessions from another service to supported ones. Per kind of block:
 *
 * - `server_tool_use` and `mcp_tool_use` with their results: tool calls and results, between the texts around
 * them; a call without its result is dropped;
 * - `redacted_thinking`, and a `compaction` without text: dropped; a `compaction` with text is text;
 * - pictures and files in tool results: a placeholder text; documents and search results with text: that
 * text.
 *
 * @param leftOut counts dropped and replaced parts
 */
export function readableMessages(messages: readonly MessageParam[], leftOut: LeftOut): PlacedMessage[] {
  return messages.flatMap((message, index) => {
    const { role, content } = message;
    if (typeof content === 'string') return [{ message, index }];
    if (role === 'assistant') return assistantMessages(content, leftOut).map((each) => ({ message: each, index }));
    const blocks = content.map((block) => (isResultBlock(block) ? withReadableContent(block, leftOut) : block));
    return [{ message: { role, content: blocks }, index }];
  });
}

/** One message, or several if another server ran tools in the middle of it. */
function assistantMessages(blocks: readonly MessageBlockParam[], leftOut: LeftOut): MessageParam[] {
  const results = new Map(blocks.flatMap((block) => (isServerResult(block) ? [[block['tool_use_id'], block]] : [])));
  const messages: MessageParam[] = [];
  let reply: MessageBlockParam[] = [];
  let found: MessageBlockParam[] = [];
  let isAnswered = false;
  const settle = () => {
    if (found.length === 0) return;
    messages.push({ role: 'assistant', content: reply }, { role: 'user', content: found });
    reply = [];
    found = [];
    isAnswered = false;
  };
  for (const block of blocks) {
    if (isServerResult(block)) {
      isAnswered = found.length > 0;
      continue;
    }
    if (block?.type === 'server_tool_use' || block?.type === 'mcp_tool_use') {
      if (isAnswered) settle();
      const result = results.get(block['id']);
      if (result === undefined) leftOut.add(block.type);
      else {
        const { id, name, input, server_name: server } = block;
        const called = typeof server === 'string' ? `${server}__${String(name)}` : name;
        reply.push({ type: 'tool_use', id, name: called, input: input ?? {} });
        found.push(toResult(result, leftOut));
      }
      continue;
    }
    const readable = readableBlock(block, leftOut);
    if (readable === null) continue;
    settle();
    reply.push(readable);
  }
  settle();
  return reply.length === 0 && messages.length > 0 ? messages : [...messages, { role: 'assistant', content: reply }];
}

/** Null: the block is dropped. */
function readableBlock(block: MessageBlockParam, leftOut: LeftOut): MessageBlockParam | null {
  if (block?.type !== 'redacted_thinking' && block?.type !== 'compaction') return block;
  const { content } = block;
  if (block.type === 'compaction' && typeof content === 'string' && content !== '')
    return { type: 'text', text: content };
  leftOut.add(block.type);
  return null;
}

function isServerResult(block: MessageBlockParam): boolean {
  return isObject(block) && typeof block.type === 'string' && /^\w+_tool_result$/.test(block.type);
}

function isResultBlock(block: MessageBlockParam): boolean {
  return isObject(block) && block.type === 'tool_result';
}

function toResult(block: MessageBlockParam, leftOut: LeftOut): MessageBlockParam {
  const { tool_use_id: id, content, is_error: isError } = block;
  const text = resultText(content, leftOut);
  return { type: 'tool_result', tool_use_id: id, content: text, ...(isError === true ? { is_error: true } : {}) };
}

function withReadableContent(block: MessageBlockParam, leftOut: LeftOut): MessageBlockParam {
  const { content } = block;
  if (content === null) return { ...block, content: '' };
  if (!Array.isArray(content)) return block;
  return { ...block, content: content.map((part: unknown) => readablePart(part, leftOut)) };
}

/** A part of the client's own result. Unknown parts stay unchanged: the reader validates them. */
function readablePart(part: unknown, leftOut: LeftOut): unknown {
  if (!isObject(part)) return part;
  const source = isObject(part['source']) ? part['source'] : {};
  switch (part['type']) {
    case 'image':
      leftOut.add('image');
      return toText(leftOutText('Image', [source['media_type'], mediaOf(source['url'])]));
    case 'document': {
      const { title } = part;
      const text = source['type'] === 'text' ? source['data'] : source['content'];
      if (typeof text === 'string') return toText(withTitle(title, text));
      if (Array.isArray(text)) return toText(withTitle(title, resultText(text, leftOut)));
      leftOut.add('document');
      return toText(leftOutText('File', [title, source['media_type'], mediaOf(source['url'])]));
    }
    case 'search_result':
      return toText(
        [part['title'], part['source'], resultText(part['content'], leftOut)]
          .filter((line) => !asksForNothing(line))
          .join('\n'),
      );
    default:
      return part;
  }
}

/** Members without meaning for a model, or unreadable ones. */
const UNREAD = new Set(['type', 'encrypted_content', 'encrypted_index', 'encrypted_stdout', 'page_age', 'citations']);

function resultText(value: unknown, leftOut: LeftOut): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value))
    return value
      .map((part: unknown) => resultText(part, leftOut))
      .filter(Boolean)
      .join('\n');
  if (!isObject(value)) return value === null || value === undefined ? '' : JSON.stringify(value);
  const part = readablePart(value, leftOut);
  if (!isObject(part)) return '';
  if (part['type'] === 'text') return typeof part['text'] === 'string' ? part['text'] : '';
  if (typeof part['error_code'] === 'string') return `Error: ${part['error_code']}`;
  return Object.entries(part)
    .filter(([name, member]) => !UNREAD.has(name) && !asksForNothing(member))
    .map(([name, member]) =>
      name === 'content'
        ? resultText(member, leftOut)
        : `${name}: ${typeof member === 'string' ? member : JSON.stringify(member)}`,
    )
    .join('\n');
}

function withTitle(title: unknown, text: string): string {
  return typeof title === 'string' && title !== '' ? `${title}\n${text}` : text;
}

function toText(text: string): { type: 'text'; text: string } {
  return { type: 'text', text };
}
