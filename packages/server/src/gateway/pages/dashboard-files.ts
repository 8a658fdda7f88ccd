import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

import { mediaTypeOf } from './media-type.ts';

/** A built dashboard, held in memory: it is small, and its page and assets stay consistent. */
export interface DashboardFiles {
  /** The page with `NONCE` as a placeholder for an answer's nonce, and the demo command filled in. */
  readonly page: string;
  /** Assets by name, which contains a hash of the content. */
  readonly assets: ReadonlyMap<string, DashboardAsset>;
}

export interface DashboardAsset {
  readonly mediaType: string;
  readonly content: Buffer;
  readonly gzipped: Buffer;
  /** Null for a build without it. */
  readonly brotli: Buffer | null;
}

const compress = promisify(gzip);

/**
 * @param directory with `index.html` and `assets`
 * @param demoCommand command that trains a small task; null: this program has no demo
 * @returns null without a complete build
 */
export async function readDashboard(directory: string, demoCommand: string | null): Promise<DashboardFiles | null> {
  try {
    const names = await readdir(join(directory, 'assets'));
    const assets = names
      .filter((name) => !name.endsWith('.br'))
      .map(async (name): Promise<[string, DashboardAsset]> => {
        const content = await readFile(join(directory, 'assets', name));
        const mediaType = mediaTypeOf(name);
        const brotli = names.includes(`${name}.br`) ? await readFile(join(directory, 'assets', `${name}.br`)) : null;
        return [name, { mediaType, content, gzipped: await compress(content, { level: 9 }), brotli }];
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
