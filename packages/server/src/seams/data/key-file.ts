import { readFileSync } from 'node:fs';

import { replaceFile } from '@trainyard/store/places';

/** `secret`: null without a usable file; `problem`: the reason and its remedy in one line. */
export interface KeyFile {
  readonly secret: string | null;
  readonly problem: string | null;
}

export function readKeyFile(path: string): KeyFile {
  let text: string;
  try {
    text = readFileSync(path, 'utf8').trim();
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return { secret: null, problem: null };
    return { secret: null, problem: `The key file ${path} cannot be read (${code}). ${WAY_OUT}` };
  }
  if (text !== '') return { secret: text, problem: null };
  return { secret: null, problem: `The key file ${path} is empty. ${WAY_OUT}` };
}

export function writeKeyFile(path: string, secret: string): void {
  replaceFile(path, `${secret}\n`);
}

const WAY_OUT =
  'Stop the service, make a key with `trainyard keys create NAME --scopes admin`, and pass it with `--api-key` or `TRAINYARD_API_KEY`.';
