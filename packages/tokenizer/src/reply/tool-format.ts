import { randomBytes } from 'node:crypto';

/** Formats of models' tool calls, with examples. */
export const TOOL_FORMATS = {
  hermes: '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>',
  qwen_xml: '<tool_call><function=f><parameter=a>1</parameter></function></tool_call>',
  llama3_json: '{"name": "f", "parameters": {"a": 1}}',
  mistral: '[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}]',
  pythonic: '[f(a=1), g(b="x")]',
  kimi_k2: '<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>',
  glm: '<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>',
  granite: '<|tool_call|>[{"name": "f", "arguments": {"a": 1}}]',
  nemotron: '<TOOLCALL>[{"name": "f", "arguments": {"a": 1}}]</TOOLCALL>',
  minimax_m2: '<minimax:tool_call><invoke name="f"><parameter name="a">1</parameter></invoke></minimax:tool_call>',
  harmony: '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>',
  cohere: '<|START_ACTION|>[{"tool_name": "f", "parameters": {"a": 1}}]<|END_ACTION|>',
} as const;

export type ModelToolFormat = keyof typeof TOOL_FORMATS;

/**
 * Format of a reply's tool calls. Two depend on the request: `json_array`, `[{"name": …, "parameters": {…}}]`
 * (`tool_choice: "required"`), and `named`, only the arguments of one chosen tool.
 */
export type ToolFormat = ModelToolFormat | 'json_array' | 'named';

/** Marks unique to a format, with the texts that then appear in the template. */
const MARKS: readonly [format: ModelToolFormat, ...texts: string[]][] = [
  ['mistral', '[TOOL_CALLS]'],
  ['kimi_k2', '<|tool_call_argument_begin|>'],
  ['minimax_m2', '<minimax:tool_call>'],
  ['nemotron', '<TOOLCALL>'],
  ['cohere', '<|START_ACTION|>'],
  ['cohere', 'Action:', '"tool_name"', '```json'],
  ['harmony', '<|channel|>', 'functions', '<|call|>'],
  ['glm', '<tool_call>', '<arg_key>'],
  ['qwen_xml', '<function=', '<parameter='],
  ['granite', '<|tool_call|>', 'JSON list'],
  ['hermes', '<tool_call>'],
];

const PYTHONIC_CALL = /\[\s*[A-Za-z_]\w*\(\s*[A-Za-z_]\w*\s*=/;

/**
 * Detects the format from the marks in the template's source, because models write calls like the template. If
 * it writes tools without a known mark, the vocabulary decides.
 *
 * @param vocabularyHas true if the text is one token
 * @returns null if the template never mentions tools, or its format is not listed above
 */
export function detectToolFormat(
  templateSource: string,
  vocabularyHas: (text: string) => boolean,
): ModelToolFormat | null {
  const source = templateSource;
  if (!/\btools\b/.test(source)) return null;
  const marked = MARKS.find(([, ...texts]) => texts.every((text) => source.includes(text)));
  if (marked !== undefined) return marked[0];
  if (PYTHONIC_CALL.test(source) || source.includes('<|tool_call_start|>')) return 'pythonic';
  if (source.includes('<|python_tag|>') || /\bipython\b/.test(source)) return 'llama3_json';
  if (vocabularyHas('<tool_call>')) return 'hermes';
  if (vocabularyHas('[TOOL_CALLS]')) return 'mistral';
  if (vocabularyHas('<|tool_call_start|>')) return 'pythonic';
  return vocabularyHas('<|python_tag|>') ? 'llama3_json' : null;
}

/** True if marks of the format may be special tokens, which must stay in the text for parsing. */
export function keepsSpecialTokens(format: ToolFormat | null): boolean {
  return format !== null && format !== 'json_array' && format !== 'named';
}

const ALPHANUMERIC = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

/**
 * A new call id: `chatcmpl-tool-` and 16 hex digits; 9 letters and digits for Mistral, whose templates refuse
 * others.
 */
export function randomToolCallId(format: ToolFormat | null): string {
  if (format !== 'mistral') return `chatcmpl-tool-${randomBytes(8).toString('hex')}`;
  return Array.from(randomBytes(9), (byte) => ALPHANUMERIC[byte % ALPHANUMERIC.length]).join('');
}
