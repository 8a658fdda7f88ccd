import { randomBytes } from 'node:crypto';

/**
 * How a model writes tool calls.
 *
 * `hermes`: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`; `qwen_xml`: `<tool_call><function=NAME><parameter=KEY>VALUE…`;
 * `llama3_json`: bare objects, after a python tag or not; `mistral`: `[TOOL_CALLS]` and a list; `pythonic`: `[f(a=1), g(b="x")]`.
 * By the request, not by the model: `json_array`, `[{"name": …, "parameters": {…}}]` (`tool_choice: "required"`), and `named`, the
 * arguments of one chosen tool alone.
 */
export type ToolFormat = 'hermes' | 'qwen_xml' | 'llama3_json' | 'mistral' | 'pythonic' | 'json_array' | 'named';

const PYTHONIC_CALL = /\[\s*[A-Za-z_]\w*\(\s*[A-Za-z_]\w*\s*=/;

/**
 * The format a chat template teaches, from the marks in its source: what it writes for earlier calls is what the model writes too. Where
 * it writes tools but no mark that is known, the vocabulary decides.
 *
 * @param vocabularyHas whether this text is one token
 * @returns null when the template never mentions tools, or its calls are in a format not listed above
 */
export function detectToolFormat(
  templateSource: string,
  vocabularyHas: (text: string) => boolean,
): Exclude<ToolFormat, 'json_array' | 'named'> | null {
  const source = templateSource;
  if (!/\btools\b/.test(source)) return null;
  if (source.includes('[TOOL_CALLS]')) return 'mistral';
  if (source.includes('<function=') && source.includes('<parameter=')) return 'qwen_xml';
  if (source.includes('<arg_key>')) return null; // GLM: <tool_call>, with other things inside
  if (source.includes('<tool_call>')) return 'hermes';
  if (PYTHONIC_CALL.test(source) || source.includes('<|tool_call_start|>')) return 'pythonic';
  if (source.includes('<|python_tag|>') || /\bipython\b/.test(source)) return 'llama3_json';
  if (vocabularyHas('<tool_call>')) return 'hermes';
  if (vocabularyHas('[TOOL_CALLS]')) return 'mistral';
  if (vocabularyHas('<|tool_call_start|>')) return 'pythonic';
  return vocabularyHas('<|python_tag|>') ? 'llama3_json' : null;
}

/** True when the marks of the format may be special tokens: then special tokens must not be left out of the text while it is parsed. */
export function keepsSpecialTokens(format: ToolFormat | null): boolean {
  return format !== null && format !== 'json_array' && format !== 'named';
}

const ALPHANUMERIC = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

/** A new id for a call: `chatcmpl-tool-` and 16 hex digits; 9 letters and digits for Mistral, whose templates refuse others. */
export function randomToolCallId(format: ToolFormat | null): string {
  if (format !== 'mistral') return `chatcmpl-tool-${randomBytes(8).toString('hex')}`;
  return Array.from(randomBytes(9), (byte) => ALPHANUMERIC[byte % ALPHANUMERIC.length]).join('');
}
