import { describe, expect, test } from 'vitest';
import { mixedLogits, replying } from '@trainyard/engine/testing';
import { Harness } from './testing/text-harness.ts';

const PROMPT = [...Buffer.from('hello')];

describe('text', () => {
  test('a stop string ends the choice: text is cut, ids are kept', () => {
    const harness = new Harness({ logits: replying('one END two', PROMPT.length) });
    const cut = harness.submit({ stop: ['END'], maxTokens: 20 });
    const included = harness.submit({ stop: ['END'], includeStopString: true, maxTokens: 20 });
    harness.run();
    expect(cut.text()).toBe('one ');
    expect(cut.tokenIds()).toEqual([...Buffer.from('one END')]);
    expect(cut.finished()).toMatchObject({ finishReason: 'stop', stopReason: 'END' });
    expect(included.text()).toBe('one END');
  });

  test('means nothing to a beam search: neither stops, bad words nor a constraint', () => {
    const beams = { n: 3, maxTokens: 5, beamSearch: { lengthPenalty: 1 } };
    const texts = { stop: ['a', 'b', 'c', 'd'], badWords: ['a', 'b', 'c'], constraint: 'what nobody compiles' };
    const [plain, busy] = [beams, { ...beams, ...texts }].map((options) => {
      const harness = new Harness({ logits: mixedLogits });
      const reply = harness.submit(options);
      harness.run();
      return reply.events;
    });
    expect(busy).toEqual(plain);
  });
});

test('more requests than the limit are refused with limit and value, including those not yet prepared', () => {
  const harness = new Harness({ limits: { maxRequests: 2 } });
  harness.submit();
  harness.submit();
  expect(harness.submit().failed).toMatchObject({
    code: 'engine.overloaded',
    message: expect.stringContaining('at most 2'),
  });
});
