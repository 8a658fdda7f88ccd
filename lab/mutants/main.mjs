/**
 * Puts small faults into the sources, one at a time, and reports which of them the tests next to the file
 * detect. Works in copies of the tree.
 *
 *   npm run lab -- mutants                       15 files with a test next to them, 3 mutants each
 *   npm run lab -- mutants --seed 7           others
 *   npm run lab -- mutants --files 5 --mutants 20 --only packages/trainer --jobs 2
 *
 * A mutant is caught if a test next to its file, or another one of the same room, fails or no longer ends.
 * Mutants have correct types: `npm run check` catches others. The exit code is 1 if the caught share is below
 * `--at-least` (percent, default 85).
 */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { API } from 'typescript/unstable/sync';

import { EQUIVALENT_MUTANTS } from './equivalent-mutants.mjs';
import { MutantBench } from './mutant-bench.mjs';
import { describeMutation, mutate, mutationsOf } from './mutations.mjs';

/** @typedef {import('./mutations.mjs').Mutation} Mutation */
/** @typedef {import('./mutant-bench.mjs').TestedFile} TestedFile */

/** TypeScript errors about unused or unreachable code, which a dropped statement leaves. */
const CODES_OF_LEFTOVERS = new Set([6133, 6192, 6196, 6198, 6199, 6205, 7027]);

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    files: { type: 'string', default: '15' },
    mutants: { type: 'string', default: '45' },
    only: { type: 'string', default: '' },
    jobs: { type: 'string', default: '1' },
    'at-least': { type: 'string', default: '85' },
    root: { type: 'string', default: resolve(fileURLToPath(import.meta.url), '../../..') },
  },
});
const root = resolve(values.root);
const random = seededRandom(Number(values.seed));

/** Text of the one changed file, by path, for the compiler. @type {Map<string, string>} */
const changed = new Map();
const compiler = new API({ cwd: root, fs: { readFile: (path) => changed.get(path) } });
const chosen = chooseFiles(Number(values.files), Math.ceil(Number(values.mutants) / Number(values.files)));
compiler.close();

const numbers = { caught: 0, endless: 0, SURVIVED: 0, unjudged: 0, equivalent: 0 };
const left = [...chosen];
await Promise.all(Array.from({ length: Number(values.jobs) }, judgeWhatIsLeft));

const numCaught = numbers.caught + numbers.endless;
const numJudged = numCaught + numbers.SURVIVED;
const share = numJudged === 0 ? 0 : (100 * numCaught) / numJudged;
console.log(
  `\n${numCaught} of ${numJudged} mutants in ${chosen.length} files caught (${share.toFixed(1)} %), ` +
    `${numbers.SURVIVED} survived, ${numbers.equivalent} equivalent, ${numbers.unjudged} unjudged; seed ${values.seed}`,
);
process.exitCode = share >= Number(values['at-least']) ? 0 : 1;

/** @param {number} numFiles @param {number} numEach of each file; files with fewer are skipped */
function chooseFiles(numFiles, numEach) {
  /** @type {{ file: TestedFile, mutations: Mutation[] }[]} */
  const found = [];
  for (const file of shuffled(testedFiles())) {
    if (found.length === numFiles) break;
    const mutations = chooseMutations(file, numEach);
    if (mutations.length === numEach) found.push({ file, mutations });
  }
  return found;
}

/** Source files with a unit test of the same name next to them, in alphabetical order. @returns {TestedFile[]} */
function testedFiles() {
  const isUnitTest = (/** @type {string} */ path) => !/\.(model|torch|postgres)\.test\.ts$/.test(path);
  const tests = globSync('packages/*/src/**/*.test.ts', { cwd: root }).filter(isUnitTest).sort();
  return tests.flatMap((test) => {
    const path = test.replace(/\.test\.ts$/, '.ts');
    if (!path.includes(values.only) || !existsSync(join(root, path))) return [];
    const ofTheRoom = tests.filter((other) => other !== test && roomOf(other) === roomOf(path));
    const groups = [[test], ofTheRoom].filter((group) => group.length > 0);
    return [{ path, text: readFileSync(join(root, path), 'utf8'), tests: groups }];
  });
}

/** Folder directly below `src`, or `src` itself. @param {string} path */
function roomOf(path) {
  const [packages, name, source, ...rest] = dirname(path).split(sep);
  return [packages, name, source, rest[0] ?? ''].join(sep);
}

/**
 * Mutations of different kinds and in different lines if possible, all with correct types. @param
 * {TestedFile} tested @param {number} number
 */
function chooseMutations({ path, text }, number) {
  const absolute = join(root, path);
  const file = programOf(path).getSourceFile(absolute);
  /** @type {Mutation[]} */
  const found = [];
  const candidates = file === undefined ? [] : shuffled(mutationsOf(file));
  const isNew = (/** @type {Mutation} */ { kind, start }) =>
    found.every((other) => other.kind !== kind && lineOf(text, other.start) !== lineOf(text, start));
  while (found.length < number && candidates.length > 0) {
    const [next] = candidates.splice(Math.max(candidates.findIndex(isNew), 0), 1);
    if (next !== undefined && hasCorrectTypes(path, mutate(text, next))) found.push(next);
  }
  return found.sort((first, second) => first.start - second.start);
}

/** @param {string} path @param {string} text */
function hasCorrectTypes(path, text) {
  const absolute = join(root, path);
  changed.set(absolute, text);
  try {
    const program = programOf(path);
    if (program.getSyntacticDiagnostics(absolute).length > 0) return false;
    return program.getSemanticDiagnostics(absolute).every(({ code }) => CODES_OF_LEFTOVERS.has(code));
  } finally {
    changed.clear();
  }
}

/** Program of a file's package, with the file's current text. @param {string} path */
function programOf(path) {
  const [packages = '', name = ''] = path.split(sep);
  const project = join(root, packages, name, 'tsconfig.json');
  const fileChanges = { changed: [join(root, path)] };
  const program = compiler.updateSnapshot({ openProjects: [project], fileChanges }).getProject(project)?.program;
  if (program === undefined) throw new Error(`${project} is not a TypeScript project`);
  return program;
}

/** Judges one file after the other until none is left. */
async function judgeWhatIsLeft() {
  const bench = new MutantBench(root);
  const close = () => bench.close();
  const stop = () => process.exit(130);
  process.on('exit', close).on('SIGINT', stop).on('SIGTERM', stop);
  for (let next = left.shift(); next !== undefined; next = left.shift()) {
    const { file, mutations } = next;
    for (const mutation of mutations) await judge(bench, file, mutation);
  }
  process.off('exit', close).off('SIGINT', stop).off('SIGTERM', stop);
  close();
}

/** @param {MutantBench} bench @param {TestedFile} file @param {Mutation} mutation */
async function judge(bench, file, mutation) {
  const line = lineOf(file.text, mutation.start);
  const change = describeMutation(file.text, mutation);
  const textOfLine = file.text.split('\n')[line - 1]?.trim();
  const known = EQUIVALENT_MUTANTS.find(
    (one) => one.file === file.path && one.line === textOfLine && one.change === change,
  );
  const verdict = known === undefined ? await bench.judge(file, mutation) : 'equivalent';
  numbers[verdict] += 1;
  console.log(
    `${verdict.padEnd(10)}  ${file.path}:${line}  ${change}${known === undefined ? '' : `: ${known.because}`}`,
  );
}

/** @param {string} text @param {number} position @returns {number} from 1 */
function lineOf(text, position) {
  return text.slice(0, position).split('\n').length;
}

/** @template Item @param {Item[]} items @returns {Item[]} */
function shuffled(items) {
  return items
    .map((item) => ({ item, order: random() }))
    .sort((first, second) => first.order - second.order)
    .map(({ item }) => item);
}

/** Mulberry32: the same numbers in [0, 1) for the same seed. @param {number} seed */
function seededRandom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
