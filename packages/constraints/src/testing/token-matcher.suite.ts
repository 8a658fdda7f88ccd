import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { TokenMatcher } from '../contract/token-matcher.ts';

export interface TokenMatcherHarness {
  readonly vocabSize: number;
  /** A matcher may or may not list and accept them. */
  readonly endIds: readonly number[];
  /** The suite closes the matcher. */
  open(): TokenMatcher;
  /** Complete, but without an end token. */
  readonly accepted: readonly (readonly number[])[];
  /** Each ends with a token that is not allowed there. */
  readonly refused: readonly (readonly number[])[];
  readonly unfinished: readonly (readonly number[])[];
  close?(): void;
}

const MAX_STEPS = 60;
const NUM_WALKS = 20;

/** Behaviour required of every {@link TokenMatcher}. */
export function tokenMatcherSuite(
  name: string,
  create: () => Promise<TokenMatcherHarness> | TokenMatcherHarness,
): void {
  describe(`TokenMatcher: ${name}`, () => {
    let harness: TokenMatcherHarness;
    const opened = new Set<TokenMatcher>();
    beforeAll(async () => {
      harness = await create();
    });
    afterEach(() => {
      for (const matcher of opened) matcher.close();
      opened.clear();
    });
    afterAll(() => harness.close?.());

    const kept = (matcher: TokenMatcher): TokenMatcher => {
      opened.add(matcher);
      return matcher;
    };
    const open = (tokens: readonly number[] = []): TokenMatcher => {
      const matcher = kept(harness.open());
      for (const token of tokens) expect(matcher.accept(token)).toBe(true);
      return matcher;
    };
    const close = (matcher: TokenMatcher): void => {
      opened.delete(matcher);
      matcher.close();
    };
    /** The raw bits, including those beyond the vocabulary. */
    const maskOf = (matcher: TokenMatcher): Uint32Array => {
      const mask = new Uint32Array(Math.ceil(harness.vocabSize / 32)).fill(0xaaaa_aaaa);
      matcher.fillMask(mask);
      return mask;
    };
    const isAllowed = (mask: Uint32Array, id: number): boolean => ((mask[id >>> 5]! >>> (id & 31)) & 1) === 1;
    const allowedBy = (mask: Uint32Array): number[] =>
      Array.from({ length: 32 * mask.length }, (_, id) => id).filter(
        (id) => isAllowed(mask, id) && !harness.endIds.includes(id),
      );

    it('accepts whole completions, and may end after them, but in the middle of none', () => {
      for (const tokens of harness.accepted) expect(open(tokens).canEnd).toBe(true);
      for (const tokens of harness.unfinished) expect(open(tokens).canEnd).toBe(false);
    });

    it('refuses impossible tokens, and stays unchanged', () => {
      for (const tokens of harness.refused) {
        const matcher = open(tokens.slice(0, -1));
        const mask = maskOf(matcher);
        expect(isAllowed(mask, tokens.at(-1)!)).toBe(false);
        expect(matcher.accept(tokens.at(-1)!)).toBe(false);
        expect(maskOf(matcher)).toEqual(mask);
        for (const id of allowedBy(mask).slice(0, 1)) expect(matcher.accept(id)).toBe(true);
      }
    });

    it('lists exactly the accepted tokens, ids of the vocabulary only, at every place of a completion', () => {
      for (const tokens of harness.accepted) {
        for (let length = 0; length <= tokens.length; length++) {
          const matcher = open(tokens.slice(0, length));
          const allowed = allowedBy(maskOf(matcher));
          const taken: number[] = [];
          for (let id = 0; id < harness.vocabSize; id++) {
            if (harness.endIds.includes(id)) continue;
            const trial = matcher.clone();
            if (trial.accept(id)) taken.push(id);
            trial.close();
          }
          expect(allowed).toEqual(taken);
          expect(allowed.length > 0 || matcher.canEnd).toBe(true);
          close(matcher);
        }
      }
    });

    it('is stopped if only an end may follow', () => {
      for (const tokens of harness.accepted) {
        const matcher = open();
        for (const token of [...tokens, null]) {
          expect(matcher.isStopped).toBe(allowedBy(maskOf(matcher)).length === 0);
          if (matcher.isStopped) expect(matcher.canEnd).toBe(true);
          if (token !== null) expect(matcher.accept(token)).toBe(true);
        }
      }
    });

    it('has clones that go their own ways and outlive it', () => {
      for (const tokens of harness.accepted) {
        const middle = Math.floor(tokens.length / 2);
        const matcher = open(tokens.slice(0, middle));
        const before = maskOf(matcher);
        const clone = kept(matcher.clone());
        expect(maskOf(clone)).toEqual(before);
        for (const token of tokens.slice(middle)) expect(clone.accept(token)).toBe(true);
        expect(maskOf(matcher)).toEqual(before);
        const second = kept(matcher.clone());
        close(matcher);
        for (const token of tokens.slice(middle)) expect(second.accept(token)).toBe(true);
        expect([clone.canEnd, second.canEnd]).toEqual([true, true]);
        expect(maskOf(second)).toEqual(maskOf(clone));
      }
    });

    it('accepts any listed token, with any continuation', () => {
      let state = 1;
      const below = (count: number): number => {
        state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
        return Math.floor((state / 2 ** 32) * count);
      };
      for (let walk = 0; walk < NUM_WALKS; walk++) {
        const matcher = open();
        for (let step = 0; step < MAX_STEPS && !matcher.isStopped; step++) {
          const allowed = allowedBy(maskOf(matcher));
          if (allowed.length === 0) {
            expect(matcher.canEnd).toBe(true);
            break;
          }
          expect(matcher.accept(allowed[below(allowed.length)]!)).toBe(true);
        }
        close(matcher);
      }
    });
  });
}
