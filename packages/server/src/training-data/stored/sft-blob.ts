import type { WireSftLine } from '@trainyard/protocol';
import type { Blobs } from '@trainyard/store';
import type { SftExample } from '@trainyard/trainer';

import { sftExampleOf } from '../wire/sft-example.ts';
import { readStoredLine } from './stored-line.ts';

/** Reads a supervised job's conversations one at a time, as checked and stored at its submission. */
export async function* readSftExamples(blobs: Blobs, key: string): AsyncGenerator<SftExample> {
  for await (const line of blobs.getJsonLines(key, readStoredLine)) yield sftExampleOf(line as WireSftLine);
}
