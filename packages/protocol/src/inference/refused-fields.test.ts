import { describe, expect, test } from 'vitest';

import { refusedField } from './refused-fields.ts';

const tool = (extra: object, inner: object = {}) => ({ type: 'function', function: { name: 'f', ...inner }, ...extra });

describe('known fields that would do nothing', () => {
  test.each([
    ['functions', [{ name: 'f' }]],
    ['function_call', 'auto'],
    ['function_call', { name: 'f' }],
    ['modalities', ['text', 'audio']],
    ['audio', { voice: 'alloy' }],
    ['web_search_options', { search_context_size: 'low' }],
    ['extra_body', { top_k: 5 }],
    ['watermarking', true],
    ['return_token_offsets', true],
    ['mm_payload', 'none'],
    ['return_weight_versions', true],
    ['routed_experts_prompt_start', 3],
    ['guided_regex', 'a'],
    ['guided_json', { type: 'object' }],
  ])('%s: %j is refused by name', (param, value) => {
    for (const input of [{ messages: [] }, { prompt: 'a' }])
      expect(refusedField({ ...input, [param]: value })).toMatchObject({ param });
  });

  test('within other fields too', () => {
    expect(refusedField({ kv_transfer_params: { prompt_token_ids: [1] } })?.param).toBe(
      'kv_transfer_params.prompt_token_ids',
    );
    expect(refusedField({ tools: [tool({}), tool({ defer_loading: true })] })?.param).toBe('tools.1.defer_loading');
    expect(refusedField({ tools: [tool({}, { defer_loading: true })] })?.param).toBe('tools.0.function.defer_loading');
  });

  test('a thinking budget is refused if reasoning is not shown', () => {
    expect(refusedField({ thinking_token_budget: 5 })?.param).toBe('thinking_token_budget');
    expect(refusedField({ thinking_token_budget: -1 })).toBeNull();
    expect(refusedField({ messages: [], thinking_token_budget: 5 })).toBeNull();
  });

  test('guided_* pass together with structured_outputs, which constrain the reply', () => {
    const guided = { guided_decoding_backend: 'guidance', guided_grammar: 'start: "a"' };
    for (const input of [{ messages: [] }, { prompt: 'a' }]) {
      expect(refusedField({ ...input, ...guided, structured_outputs: { grammar: 'start: "a"' } })).toBeNull();
      for (const nothing of [{}, null])
        expect(refusedField({ ...input, ...guided, structured_outputs: nothing })?.param).toBe(
          'guided_decoding_backend',
        );
    }
  });

  test('fields without a request pass, and so do unknown ones', () => {
    const harmless = {
      functions: [],
      function_call: 'none',
      modalities: ['text'],
      extra_body: {},
      watermarking: false,
      return_token_offsets: null,
      mm_payload: 'tensors',
      routed_experts_prompt_start: 0,
      guided_regex: null,
      guided_json: {},
      guided_choice: [],
      kv_transfer_params: { do_remote_prefill: false },
      tools: [tool({ defer_loading: false })],
      foo: 1,
      constructor: 1,
    };
    expect(refusedField({ ...harmless, messages: [] })).toBeNull();
    expect(refusedField({ ...harmless, prompt: 'a' })).toBeNull();
  });
});
