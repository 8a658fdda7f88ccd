import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../..');

/**
 * Code block of a Markdown page. `sh`, `ts` and `python` blocks run in the order of their page, in one
 * folder. After the language, `illustration` marks a block that does not run, `python art` runs with the ART
 * client, `sh cluster` with PostgreSQL (`operations.postgres.test.ts`). A `text output` block has lines that
 * the block before it prints ({@link missingLines}). Other blocks (`json`, `text`, `ini`, no language) are
 * not checked.
 */
export interface DocBlock {
  /** from the root of the repository */
  readonly page: string;
  /** line number of its opening line, from 1 */
  readonly line: number;
  /** empty for output */
  readonly language: string;
  /** words after the language */
  readonly mark: string;
  readonly text: string;
}

const RUN = ['sh', 'ts', 'python'];
const OUTPUT = ['', 'json', 'text', 'ini', 'diff'];
const MARKS = ['', 'illustration', 'art', 'cluster'];

/** @param page path from the root of the repository */
export function blocksOf(page: string): DocBlock[] {
  const text = readFileSync(join(ROOT, page), 'utf8');
  return [...text.matchAll(/^```(\w*)(?: ([^\n]*))?\n([\s\S]*?)^```$/gm)].map(
    ({ 1: language = '', 2: mark = '', 3: content = '', index }) => ({
      page,
      line: text.slice(0, index).split('\n').length,
      language,
      mark,
      text: content,
    }),
  );
}

/** True if the convention includes such a block. */
export function isKnownBlock({ language, mark }: DocBlock): boolean {
  return RUN.includes(language)
    ? MARKS.includes(mark) && (mark !== 'art' || language === 'python')
    : OUTPUT.includes(language) && (mark === '' || isOutput({ language, mark }));
}

/** True if the convention runs it. */
export function isRun({ language, mark }: Pick<DocBlock, 'language' | 'mark'>): boolean {
  return RUN.includes(language) && mark !== 'illustration' && mark !== 'cluster';
}

/** True if it has lines that the block before it prints. */
export function isOutput({ language, mark }: Pick<DocBlock, 'language' | 'mark'>): boolean {
  return language === 'text' && mark === 'output';
}

/**
 * Lines of a `text output` block that a program did not print, in the block's order.
 * @param expected Text of the block; `…` matches any part of a line, even an empty one.
 * @param printed Output of the program.
 */
export function missingLines(expected: string, printed: string): string[] {
  const lines = printed.split('\n').map((line) => line.trim());
  return expected
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .filter((line) => {
      const pattern = new RegExp(
        `^${line
          .split('…')
          .map((part) => RegExp.escape(part))
          .join('.*')}$`,
      );
      const found = lines.findIndex((candidate) => pattern.test(candidate));
      lines.splice(0, found + 1);
      return found < 0;
    });
}
