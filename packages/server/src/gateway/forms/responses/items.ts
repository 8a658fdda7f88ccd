import { asksForNothing, type ChatMessage, quoting, type ResponseInputItem } from '@trainyard/protocol';

import { invalidAt, unsupported } from '../shared/conflict.ts';
import { refuseOtherFields } from '../shared/refuse-other-fields.ts';
import { stringOf } from '../shared/string-of.ts';
import { carriedReasoning } from '../shared/carried-reasoning.ts';
import { LeftOut } from '../../../seams/chat/left-out.ts';
import { readableItems } from './foreign-items.ts';
import { chatName, toArguments } from './tools.ts';

/**
 * Joins the items of one assistant turn into one chat message.
 * @param leftOut counts parts that {@link readableItems} drops or replaces
 * @param root name of the field with the items
 * @throws {RequestError} as `fromResponsesRequest`
 */
export function toChatMessages(
  items: readonly ResponseInputItem[],
  leftOut = new LeftOut(),
  root = 'input',
): ChatMessage[] {
  const messages: ChatMessage[] = [];
  let turn: ChatMessage | null = null;
  const assistantTurn = (): ChatMessage => {
    if (turn !== null) return turn;
    turn = { role: 'assistant', content: null };
    messages.push(turn);
    return turn;
  };
  readableItems(items, leftOut).forEach(({ item, index }) => {
    const place = `${root}.${index}`;
    const type = item['type'] ?? (item['role'] === undefined ? undefined : 'message');
    switch (type) {
      case 'message': {
        refuseOtherFields(item, ['type', 'role', 'content', 'id', 'status', 'phase', ...COPIED], place);
        const role = stringOf(item, 'role', place);
        const content = toContent(item['content'], `${place}.content`);
        if (role !== 'assistant') {
          turn = null;
          messages.push({ role, content });
          break;
        }
        // Text after text, or after calls, is another message.
        if (turn !== null && (turn.content !== null || turn.tool_calls)) turn = null;
        assistantTurn().content = content;
        break;
      }
      case 'reasoning': {
        refuseOtherFields(item, ['type', 'id', 'summary', 'content', 'encrypted_content', 'status', ...COPIED], place);
        turn = null;
        const reasoning = reasoningOf(item, place);
        if (reasoning !== '') assistantTurn().reasoning = reasoning;
        break;
      }
      case 'function_call':
      case 'custom_tool_call': {
        const message = assistantTurn();
        message.tool_calls = [...(message.tool_calls ?? []), toCall(item, type === 'custom_tool_call', place)];
        break;
      }
      case 'function_call_output':
      case 'custom_tool_call_output': {
        refuseOtherFields(item, ['type', 'id', 'call_id', 'output', 'status', 'name', 'namespace', ...COPIED], place);
        turn = null;
        const content = toContent(item['output'], `${place}.output`);
        messages.push({ role: 'tool', tool_call_id: stringOf(item, 'call_id', place), content });
        break;
      }
      case 'item_reference':
        throw invalidAt(`${place}.id`, 'Field required', 'missing');
      default:
        throw unsupported(
          `${place}.type`,
          quoting`supported are ${KNOWN.join(', ')}, got ${JSON.stringify(type ?? null)}`,
        );
    }
  });
  return messages;
}

/**
 * Members without effect that SDKs and other services add to the items of an answer: copies, and the caller
 * or creator.
 */
const COPIED = ['parsed', 'parsed_arguments', 'caller', 'created_by', 'agent'];

const KNOWN = [
  'message',
  'function_call',
  'function_call_output',
  'custom_tool_call',
  'custom_tool_call_output',
  'reasoning',
];

/** Clients keep different parts of an item: the first existing one has the text. */
function reasoningOf(item: ResponseInputItem, place: string): string {
  const textOf = (name: 'content' | 'summary') => {
    const content = toContent(item[name] ?? [], `${place}.${name}`);
    return typeof content === 'string' ? content : content.map(({ text }) => text).join('\n');
  };
  const [content, summary] = [textOf('content'), textOf('summary')];
  if (content !== '') return content;
  if (asksForNothing(item['encrypted_content'])) return summary;
  const carried = carriedReasoning(stringOf(item, 'encrypted_content', place));
  return carried ?? summary;
}

function toCall(
  item: ResponseInputItem,
  isCustom: boolean,
  place: string,
): NonNullable<ChatMessage['tool_calls']>[number] {
  refuseOtherFields(
    item,
    ['type', 'id', 'call_id', 'name', 'namespace', isCustom ? 'input' : 'arguments', 'status', ...COPIED],
    place,
  );
  const { namespace = null } = item;
  if (namespace !== null && typeof namespace !== 'string')
    throw invalidAt(`${place}.namespace`, 'Input should be a valid string', 'string_type');
  return {
    id: stringOf(item, 'call_id', place),
    type: 'function',
    function: {
      name: chatName({ name: stringOf(item, 'name', place), namespace }),
      arguments: isCustom ? toArguments(stringOf(item, 'input', place)) : stringOf(item, 'arguments', place),
    },
  };
}

const TEXT_TYPES = new Set(['input_text', 'output_text', 'text', 'reasoning_text', 'summary_text']);

function toContent(content: unknown, place: string): string | { type: 'text'; text: string }[] {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw invalidAt(place, 'Input should be a valid string or list', 'string_type');
  return content.map((part: unknown, index) => {
    const partPlace = `${place}.${index}`;
    if (typeof part !== 'object' || part === null)
      throw invalidAt(partPlace, 'Input should be a valid dictionary', 'dict_type');
    const { type, ...fields } = part as Record<string, unknown>;
    if (type === 'refusal') return { type: 'text' as const, text: stringOf(fields, 'refusal', partPlace) };
    if (typeof type !== 'string' || !TEXT_TYPES.has(type))
      throw unsupported(
        `${partPlace}.type`,
        quoting`the served models read only text, got a part of type ${JSON.stringify(type ?? null)}`,
      );
    // Clients send back these members of an answer's text.
    refuseOtherFields(fields, ['text', 'annotations', 'logprobs', 'prompt_cache_breakpoint', 'parsed'], partPlace);
    return { type: 'text' as const, text: stringOf(fields, 'text', partPlace) };
  });
}
