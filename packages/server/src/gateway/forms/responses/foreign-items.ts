import { asksForNothing, type ResponseInputItem } from '@trainyard/protocol';

import { isObject } from '../../../seams/json/is-object.ts';
import { carriedReasoning } from '../shared/carried-reasoning.ts';
import { type LeftOut, leftOutText, mediaOf } from '../../../seams/chat/left-out.ts';

/** An item in a supported form, with its index in the input. */
export interface PlacedItem {
  readonly item: ResponseInputItem;
  readonly index: number;
}

/**
 * Converts items of sessions from another service to supported ones. Per kind:
 *
 * - calls that a client or another server ran, with a result in the conversation: a function call with its
 * result;
 * - another server's calls without a result, encrypted summaries and lists of tools: dropped;
 * - reasoning encrypted by another service: its summary, else dropped;
 * - pictures and files in tool results: a placeholder text.
 *
 * @param leftOut counts dropped and replaced parts
 */
export function readableItems(items: readonly ResponseInputItem[], leftOut: LeftOut): PlacedItem[] {
  return items.flatMap((item, index) => readable(item, leftOut).map((each) => ({ item: each, index })));
}

/** Kinds without readable content for the model: encrypted, remote, or about another server. */
const TELL_NOTHING = new Set([
  'web_search_call',
  'image_generation_call',
  'compaction',
  'compaction_summary',
  'context_compaction',
  'compaction_trigger',
  'mcp_list_tools',
  'mcp_approval_request',
  'mcp_approval_response',
  'tool_search_call',
  'tool_search_output',
]);

/** Calls run by a client, whose results are separate items: the member with the call's input. */
const CLIENT_CALLS: Readonly<Record<string, string>> = {
  local_shell_call: 'action',
  shell_call: 'action',
  apply_patch_call: 'operation',
  computer_call: 'action',
};

function readable(item: ResponseInputItem, leftOut: LeftOut): ResponseInputItem[] {
  const { type } = item;
  if (typeof type !== 'string') return [item];
  if (TELL_NOTHING.has(type)) {
    leftOut.add(type);
    return [];
  }
  const asked = Object.hasOwn(CLIENT_CALLS, type) ? CLIENT_CALLS[type] : undefined;
  if (asked !== undefined) {
    // A computer call may have several actions.
    const wanted = item[asked] ?? item[`${asked}s`];
    return [call(item, type.replace(/_call$/, ''), isObject(wanted) ? wanted : { [asked]: wanted ?? null })];
  }
  switch (type) {
    case 'reasoning':
      return readableReasoning(item, leftOut);
    case 'function_call_output':
    case 'custom_tool_call_output':
      return [{ ...item, output: readableOutput(item['output'], leftOut) }];
    case 'local_shell_call_output':
    case 'shell_call_output':
    case 'apply_patch_call_output':
    case 'computer_call_output':
      return [result(item, readableOutput(item['output'], leftOut))];
    case 'mcp_call': {
      const name = [item['server_label'], item['name']].filter((part) => typeof part === 'string').join('__');
      return withResult(item, leftOut, { name, asked: item['arguments'], found: item['output'] ?? item['error'] });
    }
    case 'code_interpreter_call': {
      const asked = { code: item['code'] ?? '' };
      return withResult(item, leftOut, { name: 'code_interpreter', asked, found: item['outputs'] });
    }
    case 'file_search_call':
      return withResult(item, leftOut, {
        name: 'file_search',
        asked: { queries: item['queries'] ?? [] },
        found: item['results'],
      });
    default:
      return [item];
  }
}

/** Falls back to the summary for reasoning that another service encrypted. */
function readableReasoning(item: ResponseInputItem, leftOut: LeftOut): ResponseInputItem[] {
  const { encrypted_content: encrypted, ...rest } = item;
  if (typeof encrypted !== 'string' || encrypted === '' || carriedReasoning(encrypted) !== null) return [item];
  if (!asksForNothing(item['content'])) return [rest];
  leftOut.add('encrypted_content');
  return asksForNothing(item['summary']) ? [] : [rest];
}

/** Another server's call and its result; dropped without a result. */
function withResult(
  item: ResponseInputItem,
  leftOut: LeftOut,
  { name, asked, found }: { name: string; asked: unknown; found: unknown },
): ResponseInputItem[] {
  if (asksForNothing(found)) {
    leftOut.add(String(item['type']));
    return [];
  }
  return [call(item, name, asked), result(item, readableOutput(found, leftOut))];
}

function call(item: ResponseInputItem, name: string, asked: unknown): ResponseInputItem {
  const args = typeof asked === 'string' ? asked : JSON.stringify(asked ?? {});
  return { type: 'function_call', call_id: idOf(item), name: name === '' ? 'tool' : name, arguments: args };
}

function result(item: ResponseInputItem, output: unknown): ResponseInputItem {
  return { type: 'function_call_output', call_id: idOf(item), output };
}

function idOf(item: ResponseInputItem): unknown {
  return item['call_id'] ?? item['id'];
}

/** A text, or text parts. Other values stay unchanged: the reader validates them. */
function readableOutput(output: unknown, leftOut: LeftOut): unknown {
  if (output === null || output === undefined) return '';
  if (Array.isArray(output)) return output.map((part: unknown) => readablePart(part, leftOut));
  return isObject(output) ? [readablePart(output, leftOut)] : output;
}

function readablePart(part: unknown, leftOut: LeftOut): unknown {
  if (!isObject(part)) return part;
  const { type } = part;
  switch (type) {
    case 'input_image':
    case 'image':
    case 'computer_screenshot': {
      leftOut.add(type);
      const { image_url: url, url: other } = part;
      return toText(leftOutText('Image', [mediaOf(url ?? other)]));
    }
    case 'input_file':
    case 'input_audio': {
      leftOut.add(type);
      return toText(leftOutText('File', [part['filename'], mediaOf(part['file_data'] ?? part['file_url'])]));
    }
    case 'input_text':
    case 'output_text':
    case 'text':
    case 'refusal':
      return part;
    case 'logs':
      return toText(textOf(part['logs']));
    default:
      // Results of a shell and of a search are objects without a text member.
      return isResult(part) ? toText(resultText(part)) : part;
  }
}

const RESULT_MEMBERS = ['stdout', 'stderr', 'text', 'filename', 'outcome', 'status', 'output', 'message'];

function isResult(part: Readonly<Record<string, unknown>>): boolean {
  return RESULT_MEMBERS.some((name) => Object.hasOwn(part, name));
}

function resultText(part: Readonly<Record<string, unknown>>): string {
  return RESULT_MEMBERS.flatMap((name) => (asksForNothing(part[name]) ? [] : [`${name}: ${textOf(part[name])}`])).join(
    '\n',
  );
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? '');
}

function toText(text: string): { type: 'input_text'; text: string } {
  return { type: 'input_text', text };
}
