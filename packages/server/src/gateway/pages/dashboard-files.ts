import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** A built dashboard, held in memory: it is small, and stays the one that the page was made for. */
export interface DashboardFiles {
  /** The page, with `NONCE` where the nonce of an answer goes, and the command of the demo in its place. */
  readonly page: string;
  /** By their names, which contain a hash of their content. */
  readonly assets: ReadonlyMap<string, DashboardAsset>;
}

export interface DashboardAsset {
  readonly mediaType: string;
  readonly content: Buffer;
  readonly gzipped: Buffer;
}

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};

const compress = promisify(gzip);

/**
 * @param directory with `index.html` and `assets`
 * @param demoCommand what trains a small task, as it can be typed here, in letters, spaces and hyphens; null: this program has no demo
 * @returns null when there is no whole build
 */
export async function readDashboard(directory: string, demoCommand: string | null): Promise<DashboardFiles | null> {
  try {
    const names = await readdir(join(directory, 'assets'));
    const assets = names.map(async (name): Promise<[string, DashboardAsset]> => {
      const content = await readFile(join(directory, 'assets', name));
      const mediaType = MEDIA_TYPES[extname(name)] ?? 'application/octet-stream';
      return [name, { mediaType, content, gzipped: await compress(content, { level: 9 }) }];
    });
    return {
      page: (await readFile(join(directory, 'index.html'), 'utf8')).replace('DEMO', demoCommand ?? ''),
      assets: new Map(await Promise.all(assets)),
    };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}
