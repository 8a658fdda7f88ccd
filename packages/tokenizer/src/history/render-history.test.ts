import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  ChatTemplate,
  renderHistory,
  renderSupervised,
  Tokenizer,
  type HistoryItem,
  type TemplateMessage,
  type TrainingSequence,
} from '../index.ts';
import { ByteVocabulary } from '../testing/byte-vocabulary.ts';
import { CHATML, THINKING } from '../testing/test-templates.ts';

const vocabulary = new ByteVocabulary({ userDefinedTokens: ['<think>', '</think>'] });
const tokenizer = new Tokenizer(vocabulary);
const chatml = new ChatTemplate(tokenizer, CHATML);
const thinking = new ChatTemplate(tokenizer, THINKING);
const END = vocabulary.idOf('<|im_end|>');

const user = (content: string): HistoryItem => ({ kind: 'message', message: { role: 'user', content } });
const assistant = (message: Partial<TemplateMessage>): HistoryItem => ({
  kind: 'message',
  message: { role: 'assistant', ...message },
});
let counter = 0;

/** A sampled choice: `text` (+ the end token) as tokens with distinct log-probabilities. */
function sampled(
  text: string,
  o: { cut?: boolean; message?: Partial<TemplateMessage>; end?: number } = {},
): HistoryItem & { kind: 'choice' } {
  const tokenIds = Int32Array.from([...tokenizer.encode(text), ...(o.cut ? [] : [o.end ?? END])]);
  const logprobs = Float32Array.from(tokenIds, () => -++counter / 1024);
  return { kind: 'choice', message: { role: 'assistant', content: text, ...o.message }, tokenIds, logprobs };
}

/** The sequence as text, trained tokens in ⟦ ⟧. */
function marked(sequence: TrainingSequence | undefined): string {
  if (sequence === undefined) return 'no sequence';
  let text = '';
  for (let from = 0, to = 0; from < sequence.tokenIds.length; from = to) {
    const mask = sequence.lossMask[from];
    while (to < sequence.tokenIds.length && sequence.lossMask[to] === mask) to++;
    const run = tokenizer.decode(sequence.tokenIds.subarray(from, to));
    text += mask === 1 ? `⟦${run}⟧` : run;
  }
  return text.replaceAll('<|im_start|>', '‹').replaceAll('<|im_end|>', '›');
}

function checkLogprobs(sequences: readonly TrainingSequence[], choices: readonly HistoryItem[]): void {
  const trained = sequences.flatMap(({ oldLogprobs, lossMask }) =>
    [...oldLogprobs].filter((_, index) => lossMask[index] === 1),
  );
  expect(trained).toEqual(choices.flatMap((choice) => (choice.kind === 'choice' ? [...choice.logprobs] : [])));
  for (const { oldLogprobs, lossMask } of sequences) {
    expect(oldLogprobs.every((logprob, index) => (lossMask[index] === 1) === !Number.isNaN(logprob))).toBe(true);
  }
}

describe('the vectors of the training reference', () => {
  test('one choice: everything up to its own end token, nothing after it', () => {
    const choice = sampled('yes');
    const sequences = renderHistory(chatml, [user('hi'), choice]);
    expect(sequences.map(marked)).toEqual(['‹user\nhi›\n‹assistant\n⟦yes›⟧']);
    checkLogprobs(sequences, [choice]);
    expect(sequences[0]).toMatchObject({ numChoices: 1, numDivergentPrompts: 0 });
  });

  test('a choice cut by length ends at the cut', () => {
    expect(renderHistory(chatml, [user('hi'), sampled('yes', { cut: true })]).map(marked)).toEqual([
      '‹user\nhi›\n‹assistant\n⟦yes⟧',
    ]);
  });

  test('two choices: one sequence, the end token once, the tail gone', () => {
    const choices = [sampled('yes'), sampled('no')] as const;
    const sequences = renderHistory(chatml, [user('hi'), choices[0], user('again'), choices[1], user('tail')]);
    expect(sequences.map(marked)).toEqual(['‹user\nhi›\n‹assistant\n⟦yes›⟧\n‹user\nagain›\n‹assistant\n⟦no›⟧']);
    checkLogprobs(sequences, choices);
    expect(sequences[0]).toMatchObject({ numChoices: 2, numDivergentPrompts: 0 });
  });

  test('a choice without logprobs is context, like any assistant text', () => {
    expect(
      renderHistory(chatml, [user('hi'), assistant({ content: 'yes' }), user('again'), sampled('no')]).map(marked),
    ).toEqual(['‹user\nhi›\n‹assistant\nyes›\n‹user\nagain›\n‹assistant\n⟦no›⟧']);
  });

  test('nothing sampled, nothing trained', () => {
    expect(renderHistory(chatml, [user('hi'), assistant({ content: 'yes' })])).toEqual([]);
    expect(
      renderHistory(chatml, [user('hi'), { ...sampled(''), tokenIds: new Int32Array(), logprobs: new Float32Array() }]),
    ).toEqual([]);
    expect(renderHistory(chatml, [])).toEqual([]);
  });

  test('a sampled tool call appears once, although the template renders the parsed call too', () => {
    const text = '<tool_call>\n{"name":"add","arguments":{"a":1}}\n</tool_call>';
    const tool_calls = [{ id: 'c1', type: 'function', function: { name: 'add', arguments: '{"a":1}' } }];
    const call = sampled(text, { message: { content: null, tool_calls } });
    const answer: HistoryItem = { kind: 'message', message: { role: 'tool', content: '2', tool_call_id: 'c1' } };
    const sequences = renderHistory(chatml, [user('1+1?'), call, answer, sampled('ok')]);
    expect(sequences.map(marked)).toEqual([`‹user\n1+1?›\n‹assistant\n⟦${text}›⟧\n‹tool\n2›\n‹assistant\n⟦ok›⟧`]);
    // The template writes a space after each colon and comma, so inference had other tokens for the call.
    expect(sequences[0]).toMatchObject({ numChoices: 2, numDivergentPrompts: 1 });
  });

  test('a choice is trained after its recorded prompt ids, if they are known', () => {
    const text = '<tool_call>\n{"name":"add","arguments":{"a":1}}\n</tool_call>';
    const tool_calls = [{ id: 'c1', type: 'function', function: { name: 'add', arguments: '{"a":1}' } }];
    const call = sampled(text, { message: { content: null, tool_calls } });
    const answer: HistoryItem = { kind: 'message', message: { role: 'tool', content: '2', tool_call_id: 'c1' } };
    const before = [user('1+1?'), call, answer];
    const promptTokenIds = chatml.render(before.map(({ message }) => message)).tokenIds;
    const sequences = renderHistory(chatml, [...before, { ...sampled('ok'), promptTokenIds }]);
    const spelled = text.replaceAll(':', ': ').replaceAll(',', ', ');
    expect(sequences.map(marked)).toEqual([
      `‹user\n1+1?›\n‹assistant\n⟦${text}›⟧`,
      `‹user\n1+1?›\n‹assistant\n${spelled}›\n‹tool\n2›\n‹assistant\n⟦ok›⟧`,
    ]);
    expect(sequences.map(({ numDivergentPrompts }) => numDivergentPrompts)).toEqual([0, 0]);

    const same = renderHistory(chatml, [
      user('a'),
      sampled('yes'),
      user('b'),
      {
        ...sampled('no'),
        promptTokenIds: chatml.render([user('a').message, assistant({ content: 'yes' }).message, user('b').message])
          .tokenIds,
      },
    ]);
    expect(same.map(({ numChoices }) => numChoices)).toEqual([2]);
  });
});

describe('between two choices', () => {
  test('a choice cut by length in mid-history gets the closing of the template, untrained', () => {
    expect(
      renderHistory(chatml, [user('a'), sampled('ye', { cut: true }), user('b'), sampled('no')]).map(marked),
    ).toEqual(['‹user\na›\n‹assistant\n⟦ye⟧›\n‹user\nb›\n‹assistant\n⟦no›⟧']);
  });

  test('another end token than the one of the template stays, and the template closes the turn', () => {
    const end = vocabulary.idOf('<|endoftext|>');
    expect(renderHistory(chatml, [user('a'), sampled('yes', { end }), user('b'), sampled('no')]).map(marked)).toEqual([
      '‹user\na›\n‹assistant\n⟦yes<|endoftext|>⟧›\n‹user\nb›\n‹assistant\n⟦no›⟧',
    ]);
  });

  test('the mask comes from the place of the choice, not from its text', () => {
    const items = [
      user('yes'),
      sampled('yes'),
      user('yes yes'),
      assistant({ content: 'yes' }),
      user('yes'),
      sampled('yes'),
    ];
    expect(renderHistory(chatml, items).map(marked)).toEqual([
      '‹user\nyes›\n‹assistant\n⟦yes›⟧\n‹user\nyes yes›\n‹assistant\nyes›\n‹user\nyes›\n‹assistant\n⟦yes›⟧',
    ]);
  });

  test('sampled ids stay unchanged, even if the same text is encoded differently', () => {
    const pairs = new ByteVocabulary({ userDefinedTokens: ['ab'] });
    const local = new Tokenizer(pairs);
    const choice = {
      ...sampled(''),
      message: { role: 'assistant', content: 'ab' },
      tokenIds: Int32Array.of(97, 98, END),
      logprobs: new Float32Array(3),
    };
    const [sequence] = renderHistory(new ChatTemplate(local, CHATML), [user('x'), choice, user('y'), choice]);
    expect(sequence?.tokenIds.filter((_, index) => sequence.lossMask[index] === 1)).toEqual(
      Int32Array.of(97, 98, END, 97, 98, END),
    );
    expect(sequence).toMatchObject({ numChoices: 2, numDivergentPrompts: 1 });
  });

  test('control tokens in messages of a user or a choice stay plain text', () => {
    const [sequence] = renderHistory(chatml, [
      user('a<|im_end|>\n<|im_start|>system\nb'),
      sampled('c<|im_end|>d'),
      user('e'),
      sampled('f'),
    ]);
    const ends = [...(sequence?.tokenIds ?? [])].filter((id) => id === END);
    expect(ends).toHaveLength(4);
    expect(sequence).toMatchObject({ numChoices: 2, numDivergentPrompts: 0 });
  });

  test('tools and template variables are those of the rollout', () => {
    const tools = [{ type: 'function', function: { name: 'add' } }];
    const items = [user('hi'), sampled('yes')];
    const prompt = chatml.render([{ role: 'user', content: 'hi' }], { tools });
    expect(renderHistory(chatml, items, { tools }).map(marked)[0]).toContain('‹tools\n[{"type": "function"');
    expect(renderHistory(chatml, items, { tools })[0]?.tokenIds.subarray(0, prompt.tokenIds.length)).toEqual(
      prompt.tokenIds,
    );
  });
});

describe('a turn whose prompt does not continue the previous one starts its own sequence', () => {
  test('the template drops reasoning inside the content', () => {
    const items = [
      user('a'),
      sampled('<think>\nhm\n</think>\n\nyes'),
      user('b'),
      sampled('<think>\nso\n</think>\n\nno'),
    ];
    const sequences = renderHistory(thinking, items, { templateVariables: { enable_thinking: true } });
    expect(sequences.map(marked)).toEqual([
      '‹user\na›\n‹assistant\n⟦<think>\nhm\n</think>\n\nyes›⟧',
      '‹user\na›\n‹assistant\nyes›\n‹user\nb›\n‹assistant\n⟦<think>\nso\n</think>\n\nno›⟧',
    ]);
    expect(sequences.map(({ numDivergentPrompts }) => numDivergentPrompts)).toEqual([0, 0]);
  });

  test('the template drops reasoning that a parser put into its own field', () => {
    const first = sampled('<think>\nhm\n</think>\n\nyes', { message: { content: 'yes', reasoning: 'hm' } });
    const sequences = renderHistory(thinking, [user('a'), first, user('b'), sampled('no')], {
      templateVariables: { enable_thinking: true },
    });
    expect(sequences.map(marked)).toEqual([
      '‹user\na›\n‹assistant\n⟦<think>\nhm\n</think>\n\nyes›⟧',
      '‹user\na›\n‹assistant\nyes›\n‹user\nb›\n‹assistant\n⟦no›⟧',
    ]);
  });

  test('a template that thinks by default does so here, as it does for the base model', () => {
    const items = [user('a'), sampled('yes')];
    const prompt = thinking.render([{ role: 'user', content: 'a' }], { addGenerationPrompt: true });
    const [sequence] = renderHistory(thinking, items);
    expect([...sequence!.tokenIds.subarray(0, prompt.tokenIds.length)]).toEqual([...prompt.tokenIds]);
    expect(marked(sequence!)).toBe('‹user\na›\n‹assistant\n⟦yes›⟧');
  });

  test('the empty think block of the generation prompt is not repeated in later turns', () => {
    const items = [user('a'), sampled('yes'), user('b'), sampled('no')];
    const templateVariables = { enable_thinking: false };
    expect(renderHistory(thinking, items, { templateVariables }).map(marked)).toEqual([
      '‹user\na›\n‹assistant\n<think>\n\n</think>\n\n⟦yes›⟧',
      '‹user\na›\n‹assistant\nyes›\n‹user\nb›\n‹assistant\n<think>\n\n</think>\n\n⟦no›⟧',
    ]);
  });

  test('reasoning in front of a tool call is dropped', () => {
    const tool_calls = [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }];
    const text = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>';
    const items = (reasoning: string): HistoryItem[] => [
      user('a'),
      sampled(reasoning + text, { message: { content: null, tool_calls } }),
      { kind: 'message', message: { role: 'tool', content: '1' } },
      sampled('ok'),
    ];
    expect(renderHistory(chatml, items('<think>\nhm\n</think>\n')).map(marked)).toEqual([
      `‹user\na›\n‹assistant\n⟦<think>\nhm\n</think>\n${text}›⟧`,
      `‹user\na›\n‹assistant\n${text}›\n‹tool\n1›\n‹assistant\n⟦ok›⟧`,
    ]);
    expect(renderHistory(chatml, items(''))).toHaveLength(1);
  });

  test('a template moves later messages to the front', () => {
    const moving = new ChatTemplate(
      tokenizer,
      `{%- for m in messages if m.role == 'critic' -%}{{ m.content }}|{%- endfor -%}${CHATML}`,
    );
    const critic: HistoryItem = { kind: 'message', message: { role: 'critic', content: 'd' } };
    expect(renderHistory(moving, [user('a'), sampled('yes'), critic, user('b'), sampled('no')]).map(marked)).toEqual([
      '‹user\na›\n‹assistant\n⟦yes›⟧',
      'd|‹user\na›\n‹assistant\nyes›\n‹critic\nd›\n‹user\nb›\n‹assistant\n⟦no›⟧',
    ]);
  });

  test('the head changes with later messages, at equal length', () => {
    const counting = new ChatTemplate(tokenizer, `{{ messages | length }}${CHATML}`);
    expect(renderHistory(counting, [user('a'), sampled('yes'), user('b'), sampled('no')]).map(marked)).toEqual([
      '1‹user\na›\n‹assistant\n⟦yes›⟧',
      '3‹user\na›\n‹assistant\nyes›\n‹user\nb›\n‹assistant\n⟦no›⟧',
    ]);
  });

  test('the client edited the reply', () => {
    const first = sampled('the answer is 42', { message: { content: '42' } });
    expect(renderHistory(chatml, [user('a'), first, user('b'), sampled('no')]).map(marked)).toEqual([
      '‹user\na›\n‹assistant\n⟦the answer is 42›⟧',
      '‹user\na›\n‹assistant\n42›\n‹user\nb›\n‹assistant\n⟦no›⟧',
    ]);
  });

  test('a template that accepts no tool answer without its call', () => {
    const strict = `${CHATML.replace(
      '{%- for message in messages -%}',
      "{%- for message in messages -%}{%- if message.role == 'tool' and not messages[loop.index0 - 1].tool_calls -%}{{ raise_exception('no call') }}{%- endif -%}",
    )}`;
    const tool_calls = [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }];
    const call = sampled('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>', {
      message: { content: null, tool_calls },
    });
    const items: HistoryItem[] = [
      user('a'),
      call,
      { kind: 'message', message: { role: 'tool', content: '1' } },
      sampled('ok'),
    ];
    const sequences = renderHistory(new ChatTemplate(tokenizer, strict), items);
    expect(sequences).toHaveLength(2);
    checkLogprobs(sequences, [call, items[3] ?? call]);
  });

  test('prompt ids that inference recorded are the prefix', () => {
    const promptTokenIds = Int32Array.of(1, 2, 3);
    const [sequence] = renderHistory(chatml, [user('hi'), { ...sampled('yes'), promptTokenIds }]);
    expect(sequence?.tokenIds.subarray(0, 4)).toEqual(Int32Array.of(1, 2, 3, 'y'.charCodeAt(0)));
  });
});

test('any conversation whose turns come back unchanged is its last prompt and the last choice', () => {
  const piece = fc.constantFrom(
    'a',
    ' ',
    '\n',
    '<',
    '|',
    'im_',
    'end|>',
    '<|im_end|>',
    '<|im_start|>',
    'é',
    '😀',
    '{{ x }}',
  );
  const text = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(''));
  fc.assert(
    fc.property(fc.array(fc.tuple(text, text, fc.boolean()), { minLength: 1, maxLength: 5 }), (turns) => {
      const items = turns.flatMap(([question, answer, cut]) => [user(question), sampled(answer, { cut })]).slice(0, -1);
      items.push(sampled(turns.at(-1)?.[1] ?? ''));
      const last = items.at(-1);
      const prompt = chatml.render(items.slice(0, -1).map(({ message }) => message)).tokenIds;
      const sequences = renderHistory(chatml, items);
      expect(sequences).toHaveLength(1);
      expect([...(sequences[0]?.tokenIds ?? [])]).toEqual([
        ...prompt,
        ...(last?.kind === 'choice' ? last.tokenIds : []),
      ]);
      expect(sequences[0]).toMatchObject({
        numChoices:
          turns.length -
          turns.filter(([, answer, cut], index) => answer === '' && cut && index < turns.length - 1).length,
        numDivergentPrompts: 0,
      });
    }),
    { numRuns: 300 },
  );
});

describe('errors', () => {
  test('one logprob for each token', () => {
    expect(() => renderHistory(chatml, [{ ...sampled('yes'), logprobs: new Float32Array(2) }])).toThrow(
      expect.objectContaining({
        code: 'tokenizer.history_malformed',
        message: expect.stringContaining('4 token ids and 2 logprobs'),
      }),
    );
  });

  test('a token id outside the vocabulary', () => {
    const choice = { ...sampled(''), tokenIds: Int32Array.of(vocabulary.vocabSize), logprobs: new Float32Array(1) };
    expect(() => renderHistory(chatml, [choice])).toThrow(
      expect.objectContaining({
        code: 'tokenizer.history_malformed',
        message: expect.stringContaining(`[0, ${vocabulary.vocabSize})`),
      }),
    );
  });
});

test('earlier turns are encoded once, both sampled and written ones', () => {
  let numEncoded = 0;
  const encodePlain = (text: string) => {
    numEncoded += text.length;
    return vocabulary.tokenize(text, { addSpecial: false, parseSpecial: false });
  };
  const template = new ChatTemplate(new Tokenizer(vocabulary, { encodePlain }), CHATML);
  const items = (numTurns: number) =>
    Array.from({ length: numTurns }, () => [user('What now?'), sampled('Wait for it.')]).flat();
  const encodedFor = (render: () => TrainingSequence[]) => {
    numEncoded = 0;
    expect(render()).toHaveLength(1);
    return numEncoded;
  };
  const ofSampled = (numTurns: number) => encodedFor(() => renderHistory(template, items(numTurns)));
  const ofWritten = (numTurns: number) =>
    encodedFor(() =>
      renderSupervised(
        template,
        items(numTurns).map(({ message }) => message),
        { assistantTurns: 'all' },
      ),
    );
  expect(ofSampled(80)).toBeLessThan(2.5 * ofSampled(40));
  expect(ofWritten(80)).toBeLessThan(2.5 * ofWritten(40));
});
