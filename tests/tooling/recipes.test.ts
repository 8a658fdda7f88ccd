/** docs/recipes.md and ARCHITECTURE.md name existing files, and packages have one shape. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';

const ROOT = resolve(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

/** Recipes by heading. */
const recipes = new Map(
  read('docs/recipes.md')
    .split(/^## /m)
    .slice(1)
    .map((section) => [section.split('\n', 1)[0]!, section.replaceAll(/\n +/g, ' ')] as const),
);

/** Maximum number of files that a recipe may touch, and the existing ones. A formula's own file is new. */
const FILES: Record<string, { atMost: number; existing: readonly string[]; added: readonly string[] }> = {
  'A sampling field': {
    atMost: 7,
    existing: [
      'packages/protocol/src/fields/sampling-fields.ts',
      'packages/vllm/src/wire/request-fields.ts',
      'packages/engine/src/sampling/truncation.ts',
      'packages/engine/src/sampling/sampler.test.ts',
      'packages/server/src/testing/behaviour/sampling-fields.test.ts',
      'docs/reference/chat-completions.md',
      'docs/lab/conformance.md',
    ],
    added: [],
  },
  'A base architecture': {
    atMost: 5,
    existing: [
      'packages/transformer/src/model/families.ts',
      'packages/transformer/src/testing/tiny-gguf.ts',
      'packages/trainer/src/model-folder/transformers-families.ts',
      'lab/pytorch/model_folders.py',
      'docs/guide/your-own-model.md',
    ],
    added: [],
  },
  'A loss': {
    atMost: 5,
    existing: [
      'packages/trainer/src/objectives/policy-objectives.ts',
      'packages/protocol/src/fields/training-fields.ts',
      'docs/reference/training-api.md',
    ],
    added: ['<name>.ts', 'A test next to it'],
  },
};

test('ARCHITECTURE.md: every source file that it names exists', () => {
  const paths = [...read('ARCHITECTURE.md').matchAll(/`([a-z/-]+\.(?:ts|mjs))`/g)].map(([, path]) => path!);
  expect(paths.length).toBeGreaterThan(25);
  const bases = ['', 'packages', 'packages/server/src'];
  expect(paths.filter((path) => !bases.some((base) => existsSync(join(ROOT, base, path))))).toEqual([]);
});

describe('a recipe', () => {
  test.each(Object.entries(FILES))('%s: its files exist, and are few', (title, { atMost, existing, added }) => {
    const recipe = recipes.get(title);
    if (recipe === undefined) throw new Error(`docs/recipes.md has no recipe "${title}"`);
    expect(existing.length + added.length).toBeLessThanOrEqual(atMost);
    for (const path of existing) {
      expect(existsSync(join(ROOT, path)), path).toBe(true);
      expect(recipe).toContain(`\`${path}\``);
    }
    for (const words of added) expect(recipe).toContain(words);
  });

  test.each([...recipes])('%s: every path that it names exists', (_title, recipe) => {
    const paths = [...recipe.matchAll(/`((?:packages|docs|scripts|tests|examples)\/[^`\s]*)`/g)].map(
      ([, path]) => path!,
    );
    for (const path of paths) {
      // `<name>` means the reader's own name.
      const known = path.split(/<|00NN/)[0]!;
      expect(existsSync(join(ROOT, known.endsWith('/') || known === path ? known : join(known, '..'))), path).toBe(
        true,
      );
    }
  });
});

describe('a package', () => {
  // The dashboard is bundled for browsers: no package imports it, and it exports nothing.
  const names = readdirSync(join(ROOT, 'packages')).filter((name) => name !== 'dashboard');

  test('a bundled package exports nothing, and is described', () => {
    expect(JSON.parse(read('packages/dashboard/package.json'))).not.toHaveProperty('exports');
    expect(existsSync(join(ROOT, 'packages/dashboard/README.md'))).toBe(true);
  });

  test.each(names)('%s exports its index, and its testing/ if it has one', (name) => {
    const { exports } = JSON.parse(read(`packages/${name}/package.json`)) as { exports: Record<string, unknown> };
    const both = (path: string) => ({ '@trainyard/source': `./src/${path}.ts`, default: `./dist/${path}.js` });
    const hasTesting = existsSync(join(ROOT, `packages/${name}/src/testing`));
    expect(exports['.']).toEqual(both('index'));
    expect(exports['./testing']).toEqual(hasTesting ? both('testing/index') : undefined);
    if (hasTesting) expect(existsSync(join(ROOT, `packages/${name}/src/testing/index.ts`))).toBe(true);
    expect(existsSync(join(ROOT, `packages/${name}/README.md`))).toBe(true);
  });
});
