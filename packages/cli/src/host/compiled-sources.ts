import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { globSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const PACKAGES = resolve(import.meta.dirname, '../../..');
const NO_PART_OF_THE_SERVICE = /\.(test|test-d|suite|fixture)\.ts$|[\\/]testing[\\/]/;
/** The module that is imported first: the others are loaded and compiled, and none of them runs. */
const END = 'data:text/javascript,process.exit(0)';

/**
 * Sees to it that the folder of compiled code has every source of the service, types taken away, before the service has a thread or a child.
 *
 * Node takes types away by a WebAssembly module, in each thread anew, and V8 13.6 ends a process now and then in which threads with such modules come and go
 * (docs/lab/progress.md). So what a start would have to compile is compiled by one process without threads; where nothing changed since, none is started. It has
 * the flags of this process: code of other flags of V8 is other code. If a source cannot be loaded, the next start tries again, and what needs the source says
 * what is wrong with it.
 *
 * @param folder that of `NODE_COMPILE_CACHE`
 */
export function compileSources(folder: string): void {
  const paths = sourcesOfService();
  // Installed from a tarball it is JavaScript.
  if (paths.length === 0) return;
  const flags = [process.version, process.arch, ...process.execArgv, process.env['NODE_OPTIONS']].join(' ');
  const compiled = createHash('sha256')
    .update([flags, ...paths.map(versionOf)].join('\n'))
    .digest('hex');
  const record = join(folder, 'sources.sha256');
  try {
    if (readFileSync(record, 'utf8') === compiled) return;
  } catch {
    // The first start.
  }
  const imports = [END, ...paths.map((path) => pathToFileURL(path).href)];
  const { status } = spawnSync(process.execPath, [...process.execArgv, '--input-type=module', '-'], {
    input: imports.map((url) => `import ${JSON.stringify(url)};`).join('\n'),
    env: { ...process.env, NODE_COMPILE_CACHE: folder },
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  if (status !== 0) return;
  try {
    writeFileSync(record, compiled);
  } catch {
    // A full disk ends no start: the next one compiles again.
  }
}

function sourcesOfService(): string[] {
  return globSync('*/src/**/*.ts', { cwd: PACKAGES, exclude: ['dashboard/**'] })
    .filter((path) => !NO_PART_OF_THE_SERVICE.test(path))
    .map((path) => join(PACKAGES, path));
}

/** Another one behind every change. */
function versionOf(path: string): string {
  const { size, mtimeMs } = statSync(path);
  return `${path} ${size} ${mtimeMs}`;
}
