import { expect, test } from 'vitest';
import { CHATML, LLAMA3, MISTRAL, PYTHONIC, QWEN, QWEN_XML, THINKING, TOOLLESS } from '../testing/test-templates.ts';
import {
  detectToolFormat,
  keepsSpecialTokens,
  randomToolCallId,
  TOOL_FORMATS,
  type ToolFormat,
} from './tool-format.ts';

const GENERIC = '{{ tools | tojson }}';

test.each<[ToolFormat | null, string, string[]]>([
  ['hermes', CHATML, []],
  ['hermes', QWEN, []],
  ['qwen_xml', QWEN_XML, []],
  ['llama3_json', LLAMA3, ['<|python_tag|>']],
  ['mistral', MISTRAL, []],
  ['pythonic', PYTHONIC, []],
  ['pythonic', `${GENERIC} Answer as [func_name1(params_name1=params_value1), func_name2()]`, []],
  [null, TOOLLESS, ['<tool_call>']],
  [null, THINKING, []],
  ['glm', `${GENERIC}<tool_call>f\n<arg_key>`, ['<tool_call>']],
  ['kimi_k2', `${GENERIC}<|tool_call_begin|>f:0<|tool_call_argument_begin|>`, []],
  ['granite', `${GENERIC}respond with <|tool_call|> followed by a JSON list`, []],
  ['nemotron', `${GENERIC}<TOOLCALL>[`, []],
  ['minimax_m2', `${GENERIC}<minimax:tool_call><invoke name="`, []],
  ['harmony', `${GENERIC}<|channel|>commentary to=functions.f<|call|>`, []],
  ['cohere', `${GENERIC}<|START_ACTION|>[`, []],
  ['cohere', `${GENERIC}Action:\n\`\`\`json\n[{"tool_name": `, []],
  [null, GENERIC, []],
  ['hermes', GENERIC, ['<tool_call>', '[TOOL_CALLS]']],
  ['mistral', GENERIC, ['[TOOL_CALLS]']],
  ['pythonic', GENERIC, ['<|tool_call_start|>']],
  ['llama3_json', GENERIC, ['<|python_tag|>']],
])('%s', (format, source, vocabulary) => {
  expect(detectToolFormat(source, (text) => vocabulary.includes(text))).toBe(format);
});

test('marks that may be special tokens must be seen', () => {
  const formats = Object.keys(TOOL_FORMATS) as ToolFormat[];
  expect([...formats, 'json_array', 'named'].filter((format) => keepsSpecialTokens(format as ToolFormat))).toEqual(
    formats,
  );
  expect(keepsSpecialTokens(null)).toBe(false);
});

test('ids of calls', () => {
  expect(randomToolCallId('hermes')).toMatch(/^chatcmpl-tool-[0-9a-f]{16}$/);
  expect(randomToolCallId(null)).toMatch(/^chatcmpl-tool-[0-9a-f]{16}$/);
  expect(randomToolCallId('mistral')).toMatch(/^[A-Za-z0-9]{9}$/);
  expect(new Set(Array.from({ length: 1000 }, () => randomToolCallId('mistral'))).size).toBe(1000);
});
