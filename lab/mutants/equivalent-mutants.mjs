/**
 * Mutants that behave like the original, so that no test can detect them. `npm run lab -- mutants` lists them
 * without counting them.
 *
 * @type {readonly { readonly file: string, readonly line: string, readonly change: string, readonly because:
 * string }[]}
 *   `line`: the source line where the mutation starts, without indentation; `change`: its description in the report
 */
export const EQUIVALENT_MUTANTS = [
  {
    file: 'packages/constraints/src/languages/ecma-regex.ts',
    line: String.raw`const braced = /^\{([0-9a-fA-F]{1,6})\}/.exec(this.#characters.slice(this.#at, this.#at + 8).join(''));`,
    change: 'constant: 8 → 9',
    because: 'the expression takes at most the first eight characters',
  },
  {
    file: 'packages/server/src/seams/logging/log-line.ts',
    line: "return code < 0x100 ? `\\\\x${code.toString(16).padStart(2, '0')}` : `\\\\u${code.toString(16).padStart(4, '0')}`;",
    change: 'constant: 0x100 → 257',
    because: 'no character between U+009F and U+2028 gets here',
  },
];
