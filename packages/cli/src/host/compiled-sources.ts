import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const PACKAGES = resolve(import.meta.dirname, '../../..');
const DASHBOARD = join(PACKAGES, 'dashboard/src');
const NO_PART_OF_THE_SERVICE = /\.(test|test-d|suite|fixture)\.ts$|[\\/]testing[\\/]/;
/** First imported module: the others are loaded and compiled, and none of them runs. */
const END = 'data:text/javascript,process.exit(0)';

/**
 * Fills the folder of compiled code with every source of the service, types removed, before the service has a
 * thread or a child.
 *
 * Node removes types with a WebAssembly module, again in each thread, and V8 13.6 sometimes ends a process in
 * which threads with such modules come and go (docs/lab/progress.md). So one process without threads compiles
 * the sources for a start; if nothing changed, none is started. It has the flags of this process, because
 * code depends on V8's flags. If a source cannot be loaded, the next start tries again, and the code that
 * needs it reports the error.
 *
 * @param folder value of `NODE_COMPILE_CACHE`
 */
export function compileSources(folder: string): void {
  const paths = sourcesOfService();
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
    writeFileSync(`${record}.${process.pid}`, compiled);
    renameSync(`${record}.${process.pid}`, record);
  } catch {
    // A full disk must not prevent a start; the next one compiles again.
  }
}

function sourcesOfService(): string[] {
  return readdirSync(PACKAGES)
    .map((name) => join(PACKAGES, name, 'src'))
    .filter((source) => source !== DASHBOARD && existsSync(source))
    .flatMap((source) => readdirSync(source, { recursive: true, encoding: 'utf8' }).map((path) => join(source, path)))
    .filter((path) => path.endsWith('.ts') && !NO_PART_OF_THE_SERVICE.test(path));
}

/** Version of a file, which differs after every change. */
function versionOf(path: string): string {
  const { size, mtimeMs } = statSync(path);
  return `${path} ${size} ${mtimeMs}`;
}
