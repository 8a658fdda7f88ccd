import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

import { filesBelow } from './files-below.mjs';
import { proseOfSource } from './prose-of-source.mjs';

const PROSE = /\.(ts|tsx|mjs|md)$/;

/**
 * Patterns that make a reader decode a sentence, and their aim per 10,000 words: about twice their rate in the comments of fastify, pg-boss, hono and
 * tinker-cookbook.
 *
 * @type {Readonly<Record<string, { readonly pattern: RegExp, readonly aim: number }>>}
 */
const PATTERNS = {
  'noun clauses with "what"': { pattern: /\bwhat\b/gi, aim: 6 },
  'told, tells, says, said': { pattern: /\b(?:told|tells?|says?|said)\b/gi, aim: 8 },
  'nobody, whoever and the like': { pattern: /\b(?:nobody|somebody|whoever|whatever)\b/gi, aim: 4 },
  '"where" for "if"': { pattern: /\bwhere (?:it|there|they|that|this|no|none|nothing|one)\b/gi, aim: 7 },
  'behind, beside, lies, stands': { pattern: /\b(?:behind|besides?|lies|stands?)\b/gi, aim: 6 },
};

/** Docstrings start with the subject or a verb in the third person. Counted, not per word. */
const HALF_SENTENCE = /\/\*\*(?:[ \t]*\n\s*\*)?\s*(?:What|Of|How|Who|Where|Whether|By) /g;
const HALF_SENTENCES = 'docstrings that begin with What, Of, How, Who, Where, Whether or By';

/** @typedef {Record<string, number>} Rates by the name of a pattern, per 10,000 words, rounded up */
/** @typedef {{ prose: string[], numHalfSentences: number }} Place */

/**
 * Places whose English is hard to read: a pattern is more frequent in a package, or in the documents, than its aim.
 *
 * @param {string} root the repository
 * @returns {{ violations: string[], summary: string }} one sentence for each violation, and the rates of the whole repository
 */
export function checkEnglish(root) {
  const places = readPlaces(root);
  const violations = [...places].flatMap(([place, found]) =>
    Object.entries(ratesOf(found))
      .filter(([name, rate]) => rate > aimOf(name))
      .map(([name, rate]) => `${place}: ${name}: ${rate}${unitOf(name)}, at most ${aimOf(name)}`),
  );
  const all = [...places.values()];
  const total = ratesOf({
    prose: all.flatMap(({ prose }) => prose),
    numHalfSentences: all.reduce((sum, { numHalfSentences }) => sum + numHalfSentences, 0),
  });
  const rates = Object.entries(total).map(([name, rate]) => `${name} ${rate} (aim ${aimOf(name)})`);
  const readme = join(root, 'README.md');
  const size = existsSync(readme) ? ` · README ${(statSync(readme).size / 1000).toFixed(1)} kB` : '';
  return { violations, summary: `English per 10,000 words: ${rates.join(' · ')}${size}` };
}

/** @param {string} name of a pattern */
function aimOf(name) {
  return PATTERNS[name]?.aim ?? 0;
}

/** @param {string} name of a pattern */
function unitOf(name) {
  return name === HALF_SENTENCES ? '' : ' per 10,000 words';
}

/** @param {Place} place @returns {Rates} */
function ratesOf({ prose, numHalfSentences }) {
  const text = prose.join('\n');
  const numWords = text.match(/[A-Za-z]{2,}/g)?.length ?? 0;
  const rates = Object.entries(PATTERNS).map(([name, { pattern }]) => {
    const count = text.match(pattern)?.length ?? 0;
    return [name, numWords === 0 ? 0 : Math.ceil((count / numWords) * 10_000)];
  });
  return Object.fromEntries([...rates, [HALF_SENTENCES, numHalfSentences]]);
}

/**
 * Comments and strings of each package and of each other folder with code, and the Markdown of `docs` with the pages at the root.
 *
 * @param {string} root
 * @returns {Map<string, Place>}
 */
function readPlaces(root) {
  const packages = readdirSync(join(root, 'packages'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => `packages/${name}`);
  const folders = [...packages, 'scripts', 'lab', 'bench', 'examples', 'tests', 'docs'];
  const places = new Map(folders.map((place) => [place, { prose: /** @type {string[]} */ ([]), numHalfSentences: 0 }]));
  for (const [folder, place] of places) {
    for (const path of filesBelow(root, folder, PROSE)) {
      const text = readFileSync(join(root, path), 'utf8');
      if (path.endsWith('.md')) place.prose.push(withoutCode(text));
      else place.prose.push(...proseOfSource(text));
      place.numHalfSentences += text.match(HALF_SENTENCE)?.length ?? 0;
    }
  }
  const pages = readdirSync(root).filter((name) => name.endsWith('.md'));
  places.get('docs')?.prose.push(...pages.map((page) => withoutCode(readFileSync(join(root, page), 'utf8'))));
  return places;
}

/** @param {string} text a page @returns {string} without its blocks of code */
function withoutCode(text) {
  return text.replaceAll(/^```[\s\S]*?^```/gm, '');
}
