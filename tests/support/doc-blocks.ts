import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../..');

/**
 * A block of code of a Markdown page. Convention: `sh`, `ts` and `python` are run, in the order of their page, in one folder; a block that is not run says
 * `illustration` behind its language; `python art` runs with the ART client, `sh cluster`
 * beside PostgreSQL (`operations.postgres.test.ts`). Everything else (`json`, `text`, `ini`, without a language) is output.
 */
export interface DocBlock {
  /** from the root of the repository */
  readonly page: string;
  /** of the line that opens it, from 1 */
  readonly line: number;
  /** empty for output */
  readonly language: string;
  /** words behind the language */
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

/** Whether the convention knows such a block. */
export function isKnownBlock({ language, mark }: DocBlock): boolean {
  return RUN.includes(language)
    ? MARKS.includes(mark) && (mark !== 'art' || language === 'python')
    : OUTPUT.includes(language) && mark === '';
}

/** Whether it is to be run, by the convention. */
export function isRun({ language, mark }: DocBlock): boolean {
  return RUN.includes(language) && mark !== 'illustration' && mark !== 'cluster';
}
