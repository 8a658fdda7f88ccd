import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { REPOSITORY } from './run-script.ts';

const CONFIGURATION = ['.oxfmtrc.json', '.oxlintrc.json', 'tsconfig.base.json', 'tsconfig.json', '.gitignore'];

const manifest = (name: string, dependencies: Record<string, string>): string =>
  `${JSON.stringify({ name: `@trainyard/${name}`, version: '0.1.0', type: 'module', exports: { '.': { '@trainyard/source': './src/index.ts' } }, dependencies }, null, 2)}\n`;

const TSCONFIG = `{ "extends": "../../tsconfig.base.json", "include": ["src"] }\n`;

/** Three packages with imports in one line, and a script, without faults. */
const FILES: Record<string, string> = {
  'package.json': `${JSON.stringify({ name: 'sample', private: true, type: 'module', workspaces: ['packages/*'] }, null, 2)}\n`,
  'knip.json': `{
  "workspaces": { ".": { "entry": ["scripts/*.mjs"] }, "packages/*": { "entry": ["src/index.ts"] } }
}
`,
  'scripts/hello.mjs': `console.log('hello');\n`,
  'packages/native/package.json': manifest('native', {}),
  'packages/native/tsconfig.json': TSCONFIG,
  'packages/native/src/index.ts': `export const vocabSize = 49_152;\n`,
  'packages/tokenizer/package.json': manifest('tokenizer', { '@trainyard/native': '0.1.0' }),
  'packages/tokenizer/tsconfig.json': TSCONFIG,
  'packages/tokenizer/src/index.ts': `import { vocabSize } from '@trainyard/native';\n\nexport const lastTokenId = vocabSize - 1;\n`,
};

/** A small repository with our configuration, in a temporary folder, to break on purpose. */
export class SampleRepository {
  readonly root: string;

  private constructor(root: string) {
    this.root = root;
  }

  static async create(changes: Record<string, string> = {}): Promise<SampleRepository> {
    const sample = new SampleRepository(await mkdtemp(join(tmpdir(), 'trainyard-sample-')));
    for (const name of CONFIGURATION) await cp(join(REPOSITORY, name), join(sample.root, name));
    for (const [path, content] of Object.entries({ ...FILES, ...changes })) await sample.#write(path, content);
    const installed = join(REPOSITORY, 'node_modules');
    await mkdir(join(sample.root, 'node_modules/@trainyard'), { recursive: true });
    for (const name of ['@types', 'undici-types', 'vitest'])
      await symlink(join(installed, name), join(sample.root, 'node_modules', name));
    for (const name of ['native', 'tokenizer']) {
      await symlink(join(sample.root, 'packages', name), join(sample.root, 'node_modules/@trainyard', name));
    }
    return sample;
  }

  async #write(path: string, content: string): Promise<void> {
    await mkdir(dirname(join(this.root, path)), { recursive: true });
    await writeFile(join(this.root, path), content);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.root, { recursive: true, force: true });
  }
}
