import { expect, test } from 'vitest';
import { CHATML, LLAMA3, MISTRAL, PYTHONIC, QWEN, QWEN_XML, THINKING, TOOLLESS } from '../testing/test-templates.ts';
import { detectToolFormat, keepsSpecialTokens, randomToolCallId, type ToolFormat } from './tool-format.ts';

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
  [null, `${GENERIC}<tool_call>f\n<arg_key>`, ['<tool_call>']],
  [null, GENERIC, []],
  ['hermes', GENERIC, ['<tool_call>', '[TOOL_CALLS]']],
  ['mistral', GENERIC, ['[TOOL_CALLS]']],
  ['pythonic', GENERIC, ['<|tool_call_start|>']],
  ['llama3_json', GENERIC, ['<|python_tag|>']],
])('%s', (format, source, vocabulary) => {
  expect(detectToolFormat(source, (text) => vocabulary.includes(text))).toBe(format);
});

test('marks that may be special tokens must be seen', () => {
  const formats: ToolFormat[] = ['hermes', 'qwen_xml', 'llama3_json', 'mistral', 'pythonic', 'json_array', 'named'];
  expect(formats.filter(keepsSpecialTokens)).toEqual(['hermes', 'qwen_xml', 'llama3_json', 'mistral', 'pythonic']);
  expect(keepsSpecialTokens(null)).toBe(false);
});

test('ids of calls', () => {
  expect(randomToolCallId('hermes')).toMatch(/^chatcmpl-tool-[0-9a-f]{16}$/);
  expect(randomToolCallId(null)).toMatch(/^chatcmpl-tool-[0-9a-f]{16}$/);
  expect(randomToolCallId('mistral')).toMatch(/^[A-Za-z0-9]{9}$/);
  expect(new Set(Array.from({ length: 1000 }, () => randomToolCallId('mistral'))).size).toBe(1000);
});
