import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { byteTokenizer, EOS, SECOND_END, TokenStops, type TokenStopConditions } from '@trainyard/engine/testing';
import { StopDetector } from './stop-detector.ts';
import type { StopConditions } from './stop-detector.ts';
import type { StopVerdict } from '@trainyard/backend';
import { StopStrings } from './stop-strings.ts';

type AllConditions = StopConditions & TokenStopConditions;
type Conditions = Omit<Partial<AllConditions>, 'stop'> & { stop?: readonly string[] };

/** All conditions that end a choice: on its tokens, and on their text. */
class Stops {
  readonly #tokens: TokenStops;
  readonly #text: StopDetector;

  constructor(conditions: AllConditions) {
    this.#tokens = new TokenStops(conditions);
    this.#text = new StopDetector(conditions, byteTokenizer.createDecoder({ skipSpecial: true }));
  }

  push(token: number, isForcedEnd = false): StopVerdict {
    return this.#text.push(token, this.#tokens.push(token, isForcedEnd));
  }
}

function detector({ stop = [], ...conditions }: Conditions): Stops {
  return new Stops({ ...DEFAULTS, stop: new StopStrings(stop), ...conditions });
}

const DEFAULTS: AllConditions = {
  eosTokenId: EOS,
  endTokenIds: new Set([EOS, SECOND_END]),
  ignoreEos: false,
  stopTokenIds: new Set(),
  stop: new StopStrings([]),
  includeStopString: false,
  reasoning: null,
  minTokens: 0,
  maxTokens: 1000,
  repetition: null,
};

/** Pushes the bytes of a text one by one until it stops. */
function run(
  text: string,
  conditions: Conditions,
): { chunks: string[]; text: string; finish: StopVerdict['finish']; numTokens: number } {
  const under = detector({ maxTokens: Buffer.byteLength(text), ...conditions });
  const chunks: string[] = [];
  for (const byte of Buffer.from(text)) {
    const { text: chunk, finish } = under.push(byte);
    chunks.push(chunk);
    if (finish !== null) return { chunks, text: chunks.join(''), finish, numTokens: chunks.length };
  }
  return { chunks, text: chunks.join(''), finish: null, numTokens: chunks.length };
}

describe('stop strings', () => {
  test('only the possible start of a stop string is held back', () => {
    expect(run('a<b<<end>c', { stop: ['<end>'] })).toEqual({
      chunks: ['a', '', '<b', '', '<', '', '', '', ''],
      text: 'a<b<',
      finish: { reason: 'stop', stopReason: '<end>' },
      numTokens: 9,
    });
  });
  test('text held back comes out at the end', () => {
    expect(run('abc<en', { stop: ['<end>'] })).toMatchObject({
      text: 'abc<en',
      finish: { reason: 'length', stopReason: null },
    });
    const under = detector({ stop: ['<end>'] });
    under.push(60);
    expect(under.push(EOS)).toEqual({ text: '<', finish: { reason: 'stop', stopReason: null } });
  });
  test('the match that ends first wins; the first in the list, if several end together', () => {
    expect(run('xabcd', { stop: ['abcd', 'bc'] }).finish).toEqual({ reason: 'stop', stopReason: 'bc' });
    expect(run('xabcd', { stop: ['c', 'abc'] })).toMatchObject({ text: 'xab', finish: { stopReason: 'c' } });
    expect(run('xabcd', { stop: ['abc', 'c'] })).toMatchObject({ text: 'x', finish: { stopReason: 'abc' } });
  });
  test('an included stop string needs no holding back and is kept whole, across tokens too', () => {
    expect(run('ab<end>c', { stop: ['<end>'], includeStopString: true })).toMatchObject({
      chunks: ['a', 'b', '<', 'e', 'n', 'd', '>'],
      text: 'ab<end>',
    });
  });
  test('a match on the last permitted token is a stop, not a length', () => {
    expect(run('ab', { stop: ['ab'], maxTokens: 2 }).finish).toEqual({ reason: 'stop', stopReason: 'ab' });
  });
  test('text of the first minTokens tokens completes no stop string', () => {
    expect(run('ababab', { stop: ['ab'], minTokens: 2 })).toMatchObject({ text: 'ab', numTokens: 4 });
    expect(run('ababab', { stop: ['ab'], minTokens: 3 })).toMatchObject({ text: 'ab', numTokens: 4 });
  });
  test('characters of several tokens give no text until they are whole, and an unfinished one shows as U+FFFD', () => {
    expect(run('é😀', {}).chunks).toEqual(['', 'é', '', '', '', '😀']);
    expect(run('😀', { maxTokens: 2 }).text).toBe('\uFFFD');
    expect(run('a😀b', { stop: ['😀'] })).toMatchObject({ text: 'a', numTokens: 5 });
  });

  test.each([['\udf89'], ['\ud83c'], ['\udf89y'], ['x\ud83c'], ['\ud83c\ud83c\udf89']])(
    'half a character never matches: %j',
    (stop) => {
      expect(run('x🎉y', { stop: [stop] })).toMatchObject({ text: 'x🎉y', finish: { reason: 'length' } });
      expect(run('x🎉yz', { stop: [stop, 'yz'] })).toMatchObject({ text: 'x🎉', finish: { stopReason: 'yz' } });
    },
  );

  test('any text and stops: the joined chunks equal the result of one search over the whole text', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', 'é', '😀'), maxLength: 30 });
    const stops = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', 'é', '😀'), minLength: 1, maxLength: 4 }), {
      maxLength: 3,
    });
    fc.assert(
      fc.property(
        text.filter((t) => t !== ''),
        stops,
        fc.boolean(),
        fc.nat(8),
        (whole, stop, includeStopString, minTokens) => {
          const result = run(whole, { stop, includeStopString, minTokens });
          const bytes = Buffer.from(whole);
          for (let end = minTokens + 1; end <= bytes.length; end++) {
            const soFar = new TextDecoder().decode(bytes.subarray(0, end), { stream: true });
            if (new TextDecoder().decode(bytes.subarray(0, end - 1), { stream: true }) === soFar) continue;
            const match = stop.find((candidate) => soFar.endsWith(candidate));
            if (match === undefined) continue;
            expect(result.finish).toEqual({ reason: 'stop', stopReason: match });
            expect(result.text).toBe(includeStopString ? soFar : soFar.slice(0, -match.length));
            return;
          }
          expect(result.finish).toEqual({ reason: 'length', stopReason: null });
          expect(result.text).toBe(whole);
        },
      ),
      { numRuns: 1000, seed: 2 },
    );
  });
});

describe('stop tokens', () => {
  test('the end token gives null, another end token and a stop id give the id', () => {
    expect(detector({}).push(EOS).finish).toEqual({ reason: 'stop', stopReason: null });
    expect(detector({}).push(SECOND_END).finish).toEqual({ reason: 'stop', stopReason: SECOND_END });
    expect(detector({ stopTokenIds: new Set([97]) }).push(97)).toEqual({
      text: '',
      finish: { reason: 'stop', stopReason: 97 },
    });
  });
  test('includeStopString keeps the text of a stop token', () => {
    expect(detector({ stopTokenIds: new Set([97]), includeStopString: true }).push(97).text).toBe('a');
  });
  test('an end token on the last place is a stop, not a length', () => {
    expect(detector({ maxTokens: 1 }).push(EOS).finish?.reason).toBe('stop');
  });
  test('ignoreEos continues, unless the id is requested', () => {
    expect(detector({ ignoreEos: true }).push(EOS).finish).toBeNull();
    expect(detector({ ignoreEos: true, stopTokenIds: new Set([EOS]) }).push(EOS).finish).toEqual({
      reason: 'stop',
      stopReason: EOS,
    });
  });
});

describe('order of the checks', () => {
  const repetition = { maxPatternSize: 1, minPatternSize: 1, minCount: 2 };

  test('length comes before repetition, repetition not before minTokens', () => {
    expect(run('aa', { repetition, maxTokens: 2 }).finish).toEqual({ reason: 'length', stopReason: null });
    expect(run('aaab', { repetition, maxTokens: 9 })).toMatchObject({
      finish: { reason: 'repetition', stopReason: 'repetition_detected' },
      numTokens: 2,
    });
    expect(run('aaab', { repetition, minTokens: 3, maxTokens: 9 })).toMatchObject({ numTokens: 3 });
  });
  test('a stop string comes before both', () => {
    expect(run('aa', { repetition, stop: ['aa'], maxTokens: 2 }).finish).toEqual({ reason: 'stop', stopReason: 'aa' });
  });
  test('the primary end token is null though it is a stop id too; a secondary one is its id, before length', () => {
    expect(detector({ stopTokenIds: new Set([EOS]) }).push(EOS).finish).toEqual({ reason: 'stop', stopReason: null });
    expect(detector({ maxTokens: 1 }).push(SECOND_END).finish).toEqual({ reason: 'stop', stopReason: SECOND_END });
  });
  test('a reply ended by repetition keeps the text held back', () => {
    expect(run('<<', { repetition, stop: ['<<<'], maxTokens: 9 })).toMatchObject({
      text: '<<',
      finish: { reason: 'repetition' },
    });
  });
});

describe('stop strings at their limit', () => {
  test('16,384 characters of them end nothing that they do not match', () => {
    const start = performance.now();
    const stop = new StopStrings([`${'a'.repeat(11_000)}b`, ...Array.from({ length: 500 }, (_, i) => `a${i} stop`)]);
    const built = performance.now();
    const full = new Stops({ ...DEFAULTS, stop, maxTokens: 1e6 });
    for (let i = 0; i < 20_000; i++) expect(full.push(i % 9000 === 8999 ? 98 : 97).finish).toBeNull();
    const ms = performance.now() - built;
    console.log(`stop automaton: built in ${(built - start).toFixed(0)} ms, ${(ms / 20).toFixed(2)} µs a token`);
  });
});

test('a stop string does not span the reasoning between two messages', () => {
  const part = (channel: string, text: string) => `<|start|>a<|channel|>${channel}<|message|>${text}<|end|>`;
  const text = part('commentary', 'ST') + part('analysis', 'STOP') + part('final', 'OP');
  const channels = { stop: ['STOP'], reasoning: { kind: 'channels' } } as const;
  expect(run(text, channels).text).toBe(text);
  const stopped = run(`${text}${part('final', 'a STOP b')}`, channels);
  expect(stopped.text).toBe(`${text}<|start|>a<|channel|>final<|message|>a `);
  expect(stopped.finish).toEqual({ reason: 'stop', stopReason: 'STOP' });
});
