import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** A built dashboard, held in memory: it is small, and stays the one that the page was made for. */
export interface DashboardFiles {
  /** The page, with `NONCE` where the nonce of an answer goes. */
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

/** @param directory with `index.html` and `assets` @returns null when there is no whole build */
export async function readDashboard(directory: string): Promise<DashboardFiles | null> {
  try {
    const names = await readdir(join(directory, 'assets'));
    const assets = names.map(async (name): Promise<[string, DashboardAsset]> => {
      const content = await readFile(join(directory, 'assets', name));
      const mediaType = MEDIA_TYPES[extname(name)] ?? 'application/octet-stream';
      return [name, { mediaType, content, gzipped: await compress(content, { level: 9 }) }];
    });
    return {
      page: await readFile(join(directory, 'index.html'), 'utf8'),
      assets: new Map(await Promise.all(assets)),
    };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}
