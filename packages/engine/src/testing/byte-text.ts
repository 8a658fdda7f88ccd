/** Test implementation of `RequestText`: minimal, with one token per byte. */
import { allow, type ChoiceConstraint, type ChoiceText, type RequestText, type TokenMask } from '@trainyard/backend';
import { byteTokenizer, EOS, SECOND_END } from './scripted-logits.ts';

const DIGITS = [...Buffer.from('0123456789')];

/** Between `min` and `max` digits, then the end. */
export interface DigitSpec {
  readonly min: number;
  readonly max: number;
}

/** Decodes a reply's tokens as text, and can constrain it to a number. */
export class ByteText implements RequestText {
  readonly #options: { digits: DigitSpec | null; skipSpecialTokens: boolean; includesEnd: boolean };

  constructor(options: { digits: DigitSpec | null; skipSpecialTokens: boolean; includesEnd: boolean }) {
    this.#options = options;
  }

  get isMasking(): boolean {
    return this.#options.digits !== null;
  }

  get wholeConstraint(): null {
    return null;
  }

  openChoice(): ChoiceText {
    const { digits, skipSpecialTokens: skipSpecial, includesEnd } = this.#options;
    const decoder = byteTokenizer.createDecoder({ skipSpecial });
    return {
      constraint: digits && new DigitConstraint(digits),
      forcedId: null,
      push: (token, ending) => {
        const isLeftOut = ending !== null && ending.isToken && !includesEnd;
        const text = (isLeftOut ? '' : decoder.push(token)) + (ending === null ? '' : decoder.end());
        return { text, finish: ending && { reason: ending.reason, stopReason: ending.stopReason } };
      },
      close: () => {},
    };
  }

  textOf(tokenIds: readonly number[]): string {
    const decoder = byteTokenizer.createDecoder({ skipSpecial: this.#options.skipSpecialTokens });
    return tokenIds.map((id) => decoder.push(id)).join('') + decoder.end();
  }

  close(): void {}
}

class DigitConstraint implements ChoiceConstraint {
  readonly isWaiting = false;
  readonly #spec: DigitSpec;
  #count = 0;

  constructor(spec: DigitSpec) {
    this.#spec = spec;
  }

  fillMask(mask: TokenMask): 'masked' | 'complete' {
    const { min, max } = this.#spec;
    mask.fill(0);
    if (this.#count < max) allow(mask, DIGITS);
    if (this.#count >= min) allow(mask, [EOS, SECOND_END]);
    return this.#count < max ? 'masked' : 'complete';
  }

  admits(): boolean {
    return true;
  }

  endsWith(token: number): boolean {
    return token === EOS || token === SECOND_END;
  }

  accept(): void {
    this.#count += 1;
  }
}
