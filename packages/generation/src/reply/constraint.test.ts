import { describe, expect, test } from 'vitest';
import { DigitConstraints } from '../testing/digit-matcher.ts';
import type { DigitSpec } from '../testing/digit-matcher.ts';
import { Harness, request } from '../testing/text-harness.ts';
import { EOS, mixedLogits, replying, SECOND_END, VOCAB_SIZE } from '@trainyard/engine/testing';
import type { RequestOptions, Transcript } from '../testing/text-harness.ts';
import type { LogitsScript } from '@trainyard/engine/testing';

const PROMPT = 'hello';
const id = (character: string): number => character.charCodeAt(0);

function harnessFor(logits: LogitsScript, options: object = {}): Harness & { constraints: DigitConstraints } {
  const constraints = new DigitConstraints();
  return Object.assign(new Harness({ logits, constraints, ...options }), { constraints });
}

/** Runs one reply, and checks that every matcher is closed afterwards. */
function reply(logits: LogitsScript, options: RequestOptions): Transcript {
  const harness = harnessFor(logits);
  const transcript = harness.submit({ prompt: PROMPT, ...options });
  harness.run();
  expect(transcript.numEnds).toBe(1);
  expect(harness.constraints.numClosed).toBe(harness.constraints.numOpened);
  return transcript;
}

/** Prefers `text`, then digit 7, then 3, and the first end token. */
const wanting = (text: string): LogitsScript => {
  const script = replying(text, PROMPT.length);
  return (tokens, path, row) => {
    script(tokens, path, row);
    row[id('7')] = 9;
    row[id('3')] = 8;
    row[EOS]! += 1;
  };
};

describe('a constraint', () => {
  test('allows only valid next tokens; once complete, only end tokens, and the choice stops', () => {
    const answer = reply(wanting('x'.repeat(9)), { constraint: { min: 3, max: 3 } });
    expect(answer.text()).toBe('777');
    expect(answer.tokenIds()).toEqual([...Buffer.from('777'), EOS]);
    expect(answer.finished()).toMatchObject({ finishReason: 'stop', stopReason: null });
  });

  test('that could continue leaves both: the model decides', () => {
    expect(reply(wanting('x'), { constraint: { min: 1, max: 5 } }).text()).toBe('7');
    const likesDigits: LogitsScript = (_tokens, _path, row) => {
      row.fill(0);
      row[id('4')] = 5;
    };
    expect(reply(likesDigits, { constraint: { min: 1, max: 5 } }).text()).toBe('44444');
  });

  test('a secondary end token ends a complete reply, with its id as the reason', () => {
    const answer = reply(replying([id('1'), SECOND_END], PROMPT.length), { constraint: { min: 1, max: 5 } });
    expect(answer.finished()).toMatchObject({ finishReason: 'stop', stopReason: SECOND_END });
  });

  test('is in the raw logprobs, and later stages are not', () => {
    const answer = reply(wanting('x'), {
      constraint: { min: 1, max: 1 },
      logprobs: 3,
      sampling: { logitBias: [[id('3'), 50]] },
    });
    // Ten digits are left: one at 9, one at 8, eight at 0.
    const total = Math.exp(9) + Math.exp(8) + 8;
    const [first] = answer.logprobs();
    expect(first).toMatchObject({ id: id('3') });
    expect(first!.logprob).toBeCloseTo(8 - Math.log(total), 5);
    expect(first!.top.map((entry) => entry.id)).toEqual([id('3'), id('7'), id('0')]);
    // Fewer tokens are possible than requested: the others are at the floor.
    const [, last] = answer.logprobs();
    expect(last!.top.map((entry) => entry.logprob)).toEqual([expect.closeTo(0, 5), expect.closeTo(-51, 5), -9999]);
  });

  test('each choice has a matcher of its own', () => {
    const answer = reply(mixedLogits, {
      n: 5,
      constraint: { min: 2, max: 6 },
      sampling: { temperature: 2, seed: 5n },
      maxTokens: 20,
    });
    const texts = [0, 1, 2, 3, 4].map((index) => answer.text(index));
    for (const text of texts) expect(text).toMatch(/^\d{2,6}$/);
    expect(new Set(texts).size).toBeGreaterThan(1);
  });

  test('minTokens does not keep a completed one from ending the reply', () => {
    const answer = reply(wanting('x'), { constraint: { min: 2, max: 2 }, minTokens: 5 });
    expect(answer.text()).toBe('77');
    expect(answer.finished()?.finishReason).toBe('stop');
    // Not complete: minTokens applies, and the model must continue.
    const longer = reply(wanting(''), { constraint: { min: 1, max: 5 }, minTokens: 3 });
    expect(longer.text()).toBe('777');
  });

  test('ends its reply under ignoreEos, too', () => {
    const answer = reply(wanting('x'), { constraint: { min: 2, max: 2 }, ignoreEos: true, maxTokens: 9 });
    expect(answer.text()).toBe('77');
    expect(answer.finished()).toMatchObject({ finishReason: 'stop', stopReason: null });
  });

  test('is not asked any more once maxTokens are there', () => {
    const answer = reply(wanting('x'), { constraint: { min: 9, max: 9 }, maxTokens: 2 });
    expect(answer.finished()).toMatchObject({ finishReason: 'length' });
    expect(answer.text()).toBe('77');
  });

  test('survives preemption, and its matchers are closed once each', () => {
    const options = { constraint: { min: 30, max: 30 }, maxTokens: 40, sampling: { temperature: 1, seed: 3n } };
    const prompts = ['a', 'b', 'c'].map((letter) => letter.repeat(10));
    const harness = harnessFor(mixedLogits, { capacityTokens: 64 });
    const replies = prompts.map((prompt) => harness.submit({ prompt, ...options }));
    harness.run();
    expect(harness.engine.stats().numPreemptions).toBeGreaterThan(0);
    for (const [i, prompt] of prompts.entries()) {
      expect(replies[i]!.text()).toMatch(/^\d{30}$/);
      expect(replies[i]!.tokenIds()).toEqual(reply(mixedLogits, { prompt, ...options }).tokenIds());
    }
    expect(harness.constraints.numClosed).toBe(harness.constraints.numOpened);
  });

  test('is closed when its request is aborted or the engine closes', () => {
    const harness = harnessFor(mixedLogits);
    const constraint = { min: 30, max: 30 };
    const aborted = harness.submit({ constraint, n: 3, sampling: { temperature: 1 }, maxTokens: 40 });
    harness.submit({ constraint, maxTokens: 40 });
    harness.step();
    harness.step();
    harness.engine.abort(aborted.id);
    harness.step();
    expect(aborted.failed?.code).toBe('engine.aborted');
    harness.engine.close();
    expect(harness.constraints.numOpened).toBe(6);
    expect(harness.constraints.numClosed).toBe(6);
  });
});

describe('a constraint that starts after a marker', () => {
  const constraint = { min: 2, max: 2 };

  test('does not touch the text before it, and holds from there', () => {
    const answer = reply(wanting('why</think>xxx'), { constraint, constraintStartsAfter: '</think>', maxTokens: 30 });
    expect(answer.text()).toBe('why</think>77');
    expect(answer.finished()).toMatchObject({ finishReason: 'stop' });
  });

  test('never starts if the marker does not come', () => {
    const answer = reply(wanting('no thinking'), { constraint, constraintStartsAfter: '</think>', maxTokens: 30 });
    expect(answer.text()).toBe('no thinking');
  });

  test('finds the marker in a control token that gives no text', () => {
    const answer = reply(replying([id('w'), SECOND_END, id('x')], PROMPT.length), {
      constraint,
      constraintStartsAfter: '<|endoftext|>',
      ignoreEos: true,
      maxTokens: 30,
    });
    expect(answer.text()).toMatch(/^w\d\d$/);
  });

  test('gets the rest of the marker token, and excludes tokens with an invalid rest', () => {
    // The control token 257 is `<|im_start|>`: with the marker "<|im_" it leaves "start|>", which is no
    // number.
    const script = replying([id('w'), VOCAB_SIZE - 2], PROMPT.length);
    const answer = reply(script, { constraint, constraintStartsAfter: '<|im_', maxTokens: 6 });
    expect(answer.tokenIds()).not.toContain(VOCAB_SIZE - 2);
    expect(answer.finished()).toMatchObject({ finishReason: 'length' });
    const whole = reply(script, { constraint, constraintStartsAfter: '<|im_start|>', maxTokens: 6 });
    expect(whole.tokenIds().slice(0, 2)).toEqual([id('w'), VOCAB_SIZE - 2]);
    expect(whole.text()).toMatch(/^w\d\d$/);
  });
});

describe('a constraint that fails', () => {
  const spec = (broken: DigitSpec['broken']): DigitSpec => ({ min: 2, max: 2, broken: broken! });

  test.each(['fillMask', 'accept', 'clone', 'refuses', 'allows nothing'] as const)(
    '%s: fails only its request',
    (broken) => {
      const harness = harnessFor(mixedLogits);
      const bad = harness.submit({ constraint: spec(broken), n: 2, sampling: { temperature: 1 } });
      const good = harness.submit({ constraint: { min: 2, max: 2 } });
      harness.run();
      const code = broken === 'allows nothing' ? 'engine.invalid_request' : 'engine.internal';
      expect(bad.failed).toMatchObject({ code, message: expect.stringContaining('constraint') });
      expect(good.text()).toMatch(/^\d\d$/);
      expect(harness.constraints.numClosed).toBe(harness.constraints.numOpened);
    },
  );

  test('close: harms nobody', () => {
    expect(reply(mixedLogits, { constraint: spec('close') }).text()).toMatch(/^\d\d$/);
  });

  test('a malformed one is refused with the compiler’s own words, and any without a compiler', () => {
    const refused = harnessFor(mixedLogits).submit({ constraint: 'nonsense' });
    expect(refused.failed).toEqual({
      kind: 'failed',
      code: 'engine.invalid_request',
      message: 'the constraint is refused: the constraint must have a max',
      param: 'constraint',
    });
    expect(new Harness().submit({ constraint: { min: 1, max: 1 } }).failed).toMatchObject({
      code: 'engine.invalid_request',
      param: 'constraint',
    });
  });

  test('masks that leave no first token are refused and named', () => {
    const failure = (options: RequestOptions): unknown => reply(mixedLogits, options).failed;
    const naming = (param: string, ...others: string[]): object => ({
      code: 'engine.invalid_request',
      message: `${param} must leave a token that a reply can start with, got none together with ${others.join(' and ')}`,
      param,
    });
    const constraint = { min: 2, max: 2 };
    expect(failure({ constraint, allowedTokenIds: [65] })).toMatchObject(naming('allowedTokenIds', 'constraint'));
    expect(failure({ allowedTokenIds: [EOS], minTokens: 2 })).toMatchObject(naming('allowedTokenIds', 'minTokens'));
    expect(failure({ allowedTokenIds: [65], badWords: ['A'] })).toMatchObject(naming('allowedTokenIds', 'badWords'));
    expect(failure({ allowedTokenIds: [65, EOS], badWords: ['A'], minTokens: 1, constraint })).toMatchObject(
      naming('allowedTokenIds', 'badWords', 'minTokens', 'constraint'),
    );
  });

  test('one that is refused leaves no matcher open', () => {
    const harness = harnessFor(mixedLogits);
    harness.submit({ constraint: { min: 2, max: 2 }, allowedTokenIds: [65] });
    expect(harness.constraints.numClosed).toBe(harness.constraints.numOpened);
  });

  test('masks that leave no token later fail the request and are named', () => {
    const failure = (options: RequestOptions): unknown => reply(mixedLogits, options).failed;
    const naming = (numTokens: number, param: string, ...others: string[]): object => ({
      code: 'engine.no_token_left',
      message: `${param} must leave a token that a reply can continue with after its first ${numTokens}, got none together with ${others.join(' and ')}`,
      param,
    });
    const digit = id('1');
    const constraint = { min: 2, max: 2 };
    expect(failure({ constraint, allowedTokenIds: [digit], badWords: ['11'] })).toMatchObject(
      naming(1, 'allowedTokenIds', 'badWords', 'constraint'),
    );
    expect(failure({ allowedTokenIds: [65], badWords: ['AAA'] })).toMatchObject(
      naming(2, 'allowedTokenIds', 'badWords'),
    );
    // After one digit the constraint would let the reply end.
    expect(failure({ constraint: { min: 1, max: 2 }, allowedTokenIds: [digit], badWords: ['11'] })).toMatchObject(
      naming(1, 'allowedTokenIds', 'badWords', 'constraint'),
    );
    const letters = { allowedTokenIds: [65, EOS], badWords: ['AA'], minTokens: 2 };
    expect(failure(letters)).toMatchObject(naming(1, 'allowedTokenIds', 'badWords', 'minTokens'));
  });

  test.each([
    ['greedy', { temperature: 0 }],
    ['drawn', { temperature: 1 }],
    ['truncated', { temperature: 1, topP: 0.5, topK: 3, minP: 0.1, topNSigma: 1 }],
  ])('no token left, %s: that request fails once, with all its choices, and its neighbours continue', (_, sampling) => {
    for (const logprobsMode of ['raw', 'processed'] as const) {
      const harness = harnessFor(mixedLogits);
      const others = { maxTokens: 6, ignoreEos: true, sampling: { temperature: 1, seed: 3n } };
      const alone = reply(mixedLogits, others);
      const dead = { allowedTokenIds: [65], badWords: ['AAA'], logprobs: 2, logprobsMode, tracesSampling: true };
      const failing = harness.submit({ ...dead, n: sampling.temperature === 0 ? 1 : 3, sampling });
      const beside = harness.submit(request({ prompt: PROMPT, ...others }));
      harness.run();
      expect(failing.events.filter(({ kind }) => kind === 'failed' || kind === 'completed')).toMatchObject([
        { kind: 'failed', code: 'engine.no_token_left' },
      ]);
      expect(beside.tokenIds()).toEqual(alone.tokenIds());
    }
  });

  test('a complete constraint ends the reply even if a mask excludes the end token', () => {
    const digit = id('1');
    const constraint = { min: 2, max: 2 };
    const ended = (options: RequestOptions): unknown => {
      const answer = reply(mixedLogits, { constraint, ...options });
      return answer.failed ?? [answer.text(), answer.finished()?.finishReason];
    };
    expect(ended({ allowedTokenIds: [digit] })).toEqual(['11', 'stop']);
    expect(ended({ constraint: { min: 0, max: 0 }, allowedTokenIds: [digit] })).toEqual(['', 'stop']);
    expect(ended({ allowedTokenIds: [digit], minTokens: 5, ignoreEos: true })).toEqual(['11', 'stop']);
  });
});

test('a request without a constraint samples the same next to one with a constraint', () => {
  const options = { sampling: { temperature: 1, seed: 2n }, maxTokens: 20, ignoreEos: true };
  const alone = reply(mixedLogits, options);
  const harness = harnessFor(mixedLogits);
  const beside = harness.submit(request({ prompt: PROMPT, ...options }));
  harness.submit({ constraint: { min: 20, max: 20 }, maxTokens: 20 });
  harness.run();
  expect(beside.tokenIds()).toEqual(alone.tokenIds());
});

test('while a constraint is compiled on another thread the model leaves it a core', () => {
  const constraints = Object.assign(new DigitConstraints(), { isCompiling: true });
  const harness = new Harness({ constraints });
  const left: boolean[] = [];
  harness.runner.beforeRun = ({ leavesCore }) => void left.push(leavesCore);
  harness.submit({ maxTokens: 2, ignoreEos: true });
  harness.step();
  constraints.isCompiling = false;
  harness.step();
  expect(left).toEqual([true, false]);
});
