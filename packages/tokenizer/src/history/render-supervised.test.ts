import { describe, expect, test } from 'vitest';
import { ChatTemplate, renderSupervised, type SupervisedOptions, Tokenizer, type TemplateMessage } from '../index.ts';
import { ByteVocabulary } from '../testing/byte-vocabulary.ts';
import { CHATML, QWEN, THINKING, TOOLLESS } from '../testing/test-templates.ts';

const tokenizer = new Tokenizer(new ByteVocabulary({ userDefinedTokens: ['<think>', '</think>'] }));
const user = (content: string): TemplateMessage => ({ role: 'user', content });
const assistant = (content: string | null, more: Partial<TemplateMessage> = {}): TemplateMessage => ({
  role: 'assistant',
  content,
  ...more,
});

/** Each sequence as text, trained tokens in ⟦ ⟧. */
function render(source: string, messages: TemplateMessage[], options: Partial<SupervisedOptions> = {}): string[] {
  const template = new ChatTemplate(tokenizer, source);
  return renderSupervised(template, messages, { assistantTurns: 'all', ...options }).map((sequence) => {
    const { tokenIds, lossMask, oldLogprobs } = sequence;
    expect(oldLogprobs.every(Number.isNaN)).toBe(true);
    let text = '';
    for (let from = 0, to = 0; from < tokenIds.length; from = to) {
      while (to < tokenIds.length && lossMask[to] === lossMask[from]) to++;
      const run = tokenizer.decode(tokenIds.subarray(from, to));
      text += lossMask[from] === 1 ? `⟦${run}⟧` : run;
    }
    return text.replaceAll('<|im_start|>', '‹').replaceAll('<|im_end|>', '›');
  });
}

describe('trained parts of a conversation', () => {
  test('each assistant turn up to and including the end of the turn, and nothing else', () => {
    const messages = [
      { role: 'system', content: 'S' },
      user('hi'),
      assistant('yes'),
      user('again'),
      assistant('no'),
      user('tail'),
    ];
    expect(render(CHATML, messages)).toEqual([
      '‹system\nS›\n‹user\nhi›\n‹assistant\n⟦yes›⟧\n‹user\nagain›\n‹assistant\n⟦no›⟧',
    ]);
  });

  test('with `last` only the final assistant turn', () => {
    const messages = [user('hi'), assistant('yes'), user('again'), assistant('no')];
    expect(render(CHATML, messages, { assistantTurns: 'last' })).toEqual([
      '‹user\nhi›\n‹assistant\nyes›\n‹user\nagain›\n‹assistant\n⟦no›⟧',
    ]);
  });

  test('a turn of weight 0 is context, even if it is the last one', () => {
    const messages = [user('hi'), assistant('yes', { weight: 0 }), user('again'), assistant('no', { weight: 1 })];
    expect(render(CHATML, messages)).toEqual(['‹user\nhi›\n‹assistant\nyes›\n‹user\nagain›\n‹assistant\n⟦no›⟧']);
    const ended = [user('hi'), assistant('yes'), user('again'), assistant('no', { weight: 0 })];
    expect(render(CHATML, ended)).toEqual(['‹user\nhi›\n‹assistant\n⟦yes›⟧']);
    expect(render(CHATML, ended, { assistantTurns: 'last' })).toEqual([]);
  });

  test('an end token in the words of a user or an assistant is text', () => {
    const [text] = render(CHATML, [user('<|im_end|>'), assistant('a<|im_end|>b')]);
    expect(text).toBe('‹user\n››\n‹assistant\n⟦a›b›⟧');
    const template = new ChatTemplate(tokenizer, CHATML);
    const [sequence] = renderSupervised(template, [user('x'), assistant('a<|im_end|>b')], { assistantTurns: 'all' });
    const ends = [...sequence!.tokenIds].filter((id) => tokenizer.endTokenIds.has(id));
    expect(ends).toHaveLength(2); // the template's own, of both turns
    expect([...sequence!.lossMask].filter(Boolean)).toHaveLength('a<|im_end|>b'.length + 1);
  });

  test('an empty answer trains its end', () => {
    expect(render(CHATML, [user('hi'), assistant(null)])).toEqual(['‹user\nhi›\n‹assistant\n⟦›⟧']);
  });

  test('without an assistant turn there is nothing', () => {
    expect(render(CHATML, [user('hi')])).toEqual([]);
    expect(render(CHATML, [])).toEqual([]);
  });

  test('tool calls are trained as the template writes them, tools and their answers are context', () => {
    const call = { id: 'c', type: 'function', function: { name: 'add', arguments: '{"a":1}' } };
    const messages = [
      user('sum'),
      assistant(null, { tool_calls: [call] }),
      { role: 'tool', content: '2' },
      assistant('two'),
    ];
    expect(render(CHATML, messages, { tools: [{ type: 'function', function: { name: 'add' } }] })).toEqual([
      '‹tools\n[{"type": "function", "function": {"name": "add"}}]›\n‹user\nsum›\n‹assistant\n' +
        '⟦<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>›⟧\n‹tool\n2›\n‹assistant\n⟦two›⟧',
    ]);
  });

  test('tools of a template that knows them', () => {
    const [text] = render(QWEN, [user('sum'), assistant('two')], {
      tools: [{ type: 'function', function: { name: 'add' } }],
    });
    expect(text).toMatch(/^‹system\n<tools>.*‹user\nsum›\n‹assistant\n⟦two›⟧$/s);
  });

  test('a conversation that starts with the assistant, for a template that adds a system message', () => {
    expect(render(TOOLLESS, [assistant('Welcome.'), user('hi'), assistant('yes')])).toEqual([
      '‹system\nYou help.›\n‹assistant\n⟦Welcome.›⟧\n‹user\nhi›\n‹assistant\n⟦yes›⟧',
    ]);
  });

  test('after an empty reasoning block the answer is trained at its sampling position', () => {
    const templateVariables = { enable_thinking: false };
    expect(render(THINKING, [user('hi'), assistant('yes')], { templateVariables })).toEqual([
      '‹user\nhi›\n‹assistant\n<think>\n\n</think>\n\n⟦yes›⟧',
    ]);
  });

  test('reasoning that is written down is trained', () => {
    expect(render(THINKING, [user('hi'), assistant('yes', { reasoning_content: 'Hm.' })])).toEqual([
      '‹user\nhi›\n‹assistant\n⟦<think>\nHm.\n</think>\n\nyes›⟧',
    ]);
  });

  test('a turn with an ambiguous start is refused, naming the message', () => {
    const backwards = `{% for message in messages %}{{ message.content + '<|im_end|>' + message.role }}{% endfor %}{% if add_generation_prompt %}A:{% endif %}`;
    expect(render(backwards, [user('hi'), assistant('yes')])).toEqual(['hi›user⟦yes›⟧']);
    const lost = `{{ messages | length }}<|im_end|>{% if add_generation_prompt %}A:{% endif %}`;
    expect(() => render(lost, [user('hi'), assistant('yes')])).toThrow('message 1');
  });
});
