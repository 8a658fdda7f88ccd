/** Test constraint that only numbers satisfy, with one token per byte. */
import type { TokenMatcher } from '@trainyard/constraints';
import type { ConstraintCompiler } from '../reply/constraint.ts';
import { EOS } from '@trainyard/engine/testing';
import { allow } from '@trainyard/backend';

const DIGITS = [...Buffer.from('0123456789')];

/** `min` to `max` digits, then the end. */
export interface DigitSpec {
  min: number;
  max: number;
  /** The method that throws, or returns a wrong result. */
  broken?: 'fillMask' | 'accept' | 'clone' | 'close' | 'refuses' | 'allows nothing';
}

/** Compiles {@link DigitSpec}s and counts opened and closed matchers. */
export class DigitConstraints implements ConstraintCompiler {
  numOpened = 0;
  numClosed = 0;

  compile(constraint: unknown): TokenMatcher {
    if (typeof constraint !== 'object' || constraint === null || !('max' in constraint))
      throw new Error('the constraint must have a max');
    return new DigitMatcher(this, constraint as DigitSpec, 0);
  }
}

class DigitMatcher implements TokenMatcher {
  readonly #log: DigitConstraints;
  readonly #spec: DigitSpec;
  #count: number;
  #isClosed = false;

  constructor(log: DigitConstraints, spec: DigitSpec, count: number) {
    this.#log = log;
    this.#spec = spec;
    this.#count = count;
    log.numOpened++;
  }

  get isStopped(): boolean {
    return this.#count >= this.#spec.max;
  }
  get canEnd(): boolean {
    return this.#count >= this.#spec.min;
  }

  fillMask(mask: Uint32Array): void {
    this.#use('fillMask');
    mask.fill(0);
    if (this.#spec.broken === 'allows nothing') return;
    if (!this.isStopped) allow(mask, DIGITS);
    if (this.canEnd) allow(mask, [EOS]);
  }

  accept(tokenId: number): boolean {
    this.#use('accept');
    if (this.isStopped || !DIGITS.includes(tokenId) || this.#spec.broken === 'refuses') return false;
    this.#count++;
    return true;
  }

  clone(): TokenMatcher {
    this.#use('clone');
    return new DigitMatcher(this.#log, this.#spec, this.#count);
  }

  close(): void {
    if (this.#isClosed) throw new Error('closed twice');
    this.#isClosed = true;
    this.#log.numClosed++;
    this.#use('close');
  }

  #use(method: DigitSpec['broken']): void {
    if (this.#isClosed && method !== 'close') throw new Error(`${method} after close`);
    if (this.#spec.broken === method) throw new Error(`scripted: ${method}`);
  }
}
