import { asksForNothing, type ResponseInputItem } from '@trainyard/protocol';

import { isObject } from '../../../seams/json/is-object.ts';
import { carriedReasoning } from '../shared/carried-reasoning.ts';
import { type LeftOut, leftOutText, mediaOf } from '../../../seams/chat/left-out.ts';

/** An item that is read here, with its place in the input. */
export interface PlacedItem {
  readonly item: ResponseInputItem;
  readonly index: number;
}

/**
 * Items of sessions that began at another service, as items that are read here. Per kind:
 *
 * - calls that a client or another server ran, with a result in the conversation: a call of a function with its result;
 * - calls that another server ran whose result is not told, encrypted summaries and lists of tools: left out;
 * - reasoning that another service encrypted: its summary, else left out;
 * - pictures and files in results of tools: a text that says so.
 *
 * @param leftOut counts what the model does not see, and what it reads as a text
 */
export function readableItems(items: readonly ResponseInputItem[], leftOut: LeftOut): PlacedItem[] {
  return items.flatMap((item, index) => readable(item, leftOut).map((each) => ({ item: each, index })));
}

/** Kinds that tell the model nothing: their content is encrypted, elsewhere, or about another server. */
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

/** Calls that a client ran, whose results are items of their own: the member with what was asked for. */
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
    // A computer may be asked for several actions at once.
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

/** Also with a summary that is read in place of what another service encrypted. */
function readableReasoning(item: ResponseInputItem, leftOut: LeftOut): ResponseInputItem[] {
  const { encrypted_content: encrypted, ...rest } = item;
  if (typeof encrypted !== 'string' || encrypted === '' || carriedReasoning(encrypted) !== null) return [item];
  if (!asksForNothing(item['content'])) return [rest];
  leftOut.add('encrypted_content');
  return asksForNothing(item['summary']) ? [] : [rest];
}

/** A call that another server ran, and its result; left out if the result is not told. */
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

/** A text, or parts that are text. What is neither stays as it is, for the reader to judge. */
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
      // Results of a shell and of a search are objects without texts of their own.
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
