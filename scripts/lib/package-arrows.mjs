/**
 * Which package may import which. An arrow that is not here does not exist: the linter (`.oxlintrc.json`), the check
 * `arrows` and a test all read this table. `protocol/fields` and `protocol/json` are the parts of `protocol` that need no library: tables, and how JSON keeps the order of keys.
 * @type {Readonly<Record<string, readonly string[]>>}
 */
export const PACKAGE_ARROWS = {
  protocol: [],
  native: [],
  store: [],
  tokenizer: ['native', 'protocol/fields', 'protocol/json'],
  constraints: ['protocol/json'],
  transformer: ['native'],
  decoder: ['transformer', 'native'],
  backend: ['protocol/fields'],
  vllm: ['backend', 'protocol/fields', 'protocol/json'],
  engine: ['backend', 'tokenizer', 'decoder', 'transformer', 'native', 'protocol/fields'],
  generation: ['backend', 'tokenizer', 'constraints', 'native', 'protocol/fields', 'protocol/json'],
  trainer: ['tokenizer', 'decoder', 'transformer', 'native', 'protocol/fields'],
  tinker: ['backend', 'trainer'],
  server: ['protocol', 'generation', 'backend', 'engine', 'vllm', 'trainer', 'tinker', 'store'],
  sdk: ['protocol'],
  dashboard: ['sdk'],
  cli: ['server', 'sdk', 'protocol/fields'],
};

/**
 * Packages that the tests of a package, and their helpers, may import besides.
 * @type {Readonly<Record<string, readonly string[]>>}
 */
export const TEST_ARROWS = { generation: ['engine', 'vllm'], vllm: ['engine'] };

/** Packages that also run in a browser: their source (not their tests) imports nothing of Node. */
const BROWSER_PACKAGES = ['protocol', 'sdk', 'dashboard'];

/** Every import specifier below a package's name is private, but for what it has for the tests of others, and the parts of `protocol` that need no library. */
const DEEP_IMPORTS = {
  group: [
    '@trainyard/*/**',
    '!@trainyard/*/testing',
    '!@trainyard/protocol/fields',
    '!@trainyard/protocol/json',
    '!@trainyard/sdk/rollouts',
    '**/packages/*/src/**',
  ],
  message: 'Import a package by its name: what index.ts does not export is private.',
};

const NODE_BUILT_INS = {
  group: ['node:*'],
  message: 'This package also runs in a browser.',
};

/**
 * The `no-restricted-imports` overrides of `.oxlintrc.json` that say the same as the table.
 * @returns {{ files: string[], rules: Record<string, unknown> }[]}
 */
export function restrictedImportOverrides() {
  /** @param {string[]} files @param {object[]} patterns */
  const override = (files, patterns) => ({ files, rules: { 'no-restricted-imports': ['error', { patterns }] } });
  const overrides = [override(['tests/**', 'examples/**', 'bench/**', 'scripts/**'], [DEEP_IMPORTS])];
  for (const [name, allowed] of Object.entries(PACKAGE_ARROWS)) {
    const arrows = {
      group: ['@trainyard/*', ...allowed.map((target) => `!@trainyard/${target}`)],
      message: `${name} may import ${allowed.length === 0 ? 'no other package' : allowed.join(', ')}.`,
    };
    overrides.push(override([`packages/${name}/**`], [DEEP_IMPORTS, arrows]));
    const inTests = TEST_ARROWS[name];
    if (inTests !== undefined) {
      const testArrows = { ...arrows, group: [...arrows.group, ...inTests.map((target) => `!@trainyard/${target}`)] };
      const testFiles = [`packages/${name}/src/**/testing/**`, `packages/${name}/src/**/*.test.ts`];
      overrides.push(override(testFiles, [DEEP_IMPORTS, testArrows]));
    }
    if (BROWSER_PACKAGES.includes(name)) {
      const tests = { excludeFiles: ['**/*.test.ts', '**/*.test-d.ts'] };
      overrides.push({ ...override([`packages/${name}/src/**`], [DEEP_IMPORTS, arrows, NODE_BUILT_INS]), ...tests });
    }
  }
  return overrides;
}
