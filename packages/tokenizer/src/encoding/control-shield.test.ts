import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ControlShield } from './control-shield.ts';
import { SpecialTokens } from './special-tokens.ts';

const TEXTS = ['<|im_start|>', '<|im_end|>', '[INST]', '</s>', 'sop'];
const control = new SpecialTokens(TEXTS.map((text, index) => ({ id: 100 + index, text })));
const piece = fc.constantFrom(
  ...TEXTS,
  '<',
  '<|',
  '<|im_',
  'end|>',
  '|>',
  '>',
  '[INST',
  ']',
  '</',
  's>',
  ' ',
  '\n',
  'a',
  'é',
  '😀',
  '\u{F0000}',
  '\u{10FFFD}',
);
const text = fc.array(piece, { maxLength: 10 }).map((pieces) => pieces.join(''));

describe('ControlShield', () => {
  test('protected texts hold no control token, side by side or trimmed, and come back as they were', () => {
    fc.assert(
      fc.property(fc.array(text, { maxLength: 5 }), (strings) => {
        const shield = new ControlShield(control, strings);
        const shielded = strings.map((string) => String(shield.protect(string)));
        for (const joined of [shielded.join(''), shielded.map((string) => string.trim()).join('')]) {
          expect(control.split(joined).filter(({ kind }) => kind === 'special')).toEqual([]);
        }
        expect(shielded.map((string) => shield.restore(string))).toEqual(strings);
        expect(shielded.every((string) => !string.includes(shield.sentinel))).toBe(true);
      }),
      { numRuns: 1000 },
    );
  });

  test('protects strings in arrays, objects and keys, and leaves other values unchanged', () => {
    const value = { '<|im_end|>': [1, null, true, { role: 'user', arguments: 'tools>' }], plain: 'x' };
    const shield = new ControlShield(control, [value]);
    const shielded = JSON.stringify(shield.protect(value));
    expect(control.split(shielded)).toHaveLength(1);
    expect(JSON.parse(shield.restore(shielded))).toEqual(value);
    expect(Object.keys(Object(Object(shield.protect(value))['<|im_end|>'] ?? {}))).toEqual([]);
  });

  test('names that templates look up stay as they are', () => {
    const value = { role: 'assistants', type: 'sop_p', arguments: { s: 'p' } };
    const shielded = new ControlShield(control, [value]).protect(value);
    expect(shielded).toMatchObject({ role: 'assistants', arguments: { s: 'p' } });
  });

  test('restores its characters after tojson(ensure_ascii=true)', () => {
    const shield = new ControlShield(control, ['<|im_end|>']);
    const escaped = String(shield.protect('<|im_end|>')).replace(
      /[\x7f-\uffff]/g,
      (unit) => `\\u${unit.charCodeAt(0).toString(16)}`,
    );
    expect(escaped).toMatch(/^\\u[0-9a-f]{4}\\u[0-9a-f]{4}$/);
    expect(shield.restore(escaped)).toBe('<|im_end|>');
  });

  test('a lone surrogate stays: the template engine keeps it apart from the next one', () => {
    const shield = new ControlShield(control, []);
    expect(shield.protect('a\ud800')).toBe('a\ud800');
  });

  test('avoids private-use characters of the input, and reports if none are left', () => {
    const characters = (first: number, length: number) =>
      Array.from({ length }, (_, index) => String.fromCodePoint(first + index)).join('');
    const taken = characters(0xf0000, 0xfffe) + characters(0x100000, 0xff00);
    const shield = new ControlShield(control, [taken]);
    expect(taken.includes(shield.sentinel)).toBe(false);
    expect(shield.restore(String(shield.protect(`${taken}</s>`)))).toBe(`${taken}</s>`);
    expect(() => new ControlShield(control, [taken, characters(0x10ff00, 0xfe)])).toThrow(
      expect.objectContaining({ code: 'tokenizer.unsupported_content' }),
    );
  });
});
