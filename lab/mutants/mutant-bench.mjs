import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { mutate } from './mutations.mjs';
import { makeScratchCopy } from './scratch-copy.mjs';
import { DID_NOT_END, TestSession } from './test-session.mjs';

/**
 * Outcome of a mutant: a test failed; the tests no longer ended; all passed; or unknown, because they fail
 * without it, too.
 *
 * @typedef {'caught' | 'endless' | 'SURVIVED' | 'unjudged'} Verdict
 */

/**
 * A source file to mutate, with the tests that may notice.
 *
 * @typedef {object} TestedFile
 * @property {string} path relative to the root, like all paths here
 * @property {string} text
 * @property {readonly (readonly string[])[]} tests in groups: each runs if the one before has not noticed
 */

/** A mutant that takes this many times longer than the original counts as endless. */
const ENDLESS_FACTOR = 10;
const ENDLESS_MIN_MS = 300_000;

/** A copy of a tree in which mutants are tried one after the other. */
export class MutantBench {
  #scratch;
  #session;
  /**
   * Time limits of test groups, measured on the original; null if they fail. @type {Map<readonly string[],
   * number | null>}
   */
  #limits = new Map();

  /** @param {string} root of the checkout */
  constructor(root) {
    this.#scratch = makeScratchCopy(root);
    this.#session = new TestSession(this.#scratch.root);
  }

  /** @param {TestedFile} file @param {import('./mutations.mjs').Mutation} mutation @returns {Promise<Verdict>} */
  async judge({ path, text, tests }, mutation) {
    for (const group of tests) {
      const limitMs = await this.#limitOf(group);
      if (limitMs === null) return 'unjudged';
      this.#put(path, mutate(text, mutation));
      const isPassed = await this.#run(group, limitMs);
      this.#put(path, text);
      if (isPassed !== true) return isPassed === DID_NOT_END ? 'endless' : 'caught';
    }
    return 'SURVIVED';
  }

  /** Ends running tests and removes the copy. */
  close() {
    this.#session.kill();
    this.#scratch.remove();
  }

  /** @param {readonly string[]} group */
  async #limitOf(group) {
    const known = this.#limits.get(group);
    if (known !== undefined) return known;
    const startedMs = performance.now();
    const isPassed = (await this.#run(group, Infinity)) === true;
    const limitMs = isPassed ? Math.max(ENDLESS_MIN_MS, ENDLESS_FACTOR * (performance.now() - startedMs)) : null;
    this.#limits.set(group, limitMs);
    return limitMs;
  }

  /** @param {readonly string[]} group @param {number} limitMs */
  async #run(group, limitMs) {
    const paths = group.map((path) => join(this.#scratch.root, path));
    return await this.#session.run(paths, limitMs);
  }

  /** @param {string} path @param {string} text */
  #put(path, text) {
    const absolute = join(this.#scratch.root, path);
    writeFileSync(absolute, text);
    this.#session.fileChanged(absolute);
  }
}
