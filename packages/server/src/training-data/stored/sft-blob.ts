import type { WireSftLine } from '@trainyard/protocol';
import type { Blobs } from '@trainyard/store';
import type { SftExample } from '@trainyard/trainer';

import { sftExampleOf } from '../wire/sft-data.ts';
import { readStoredLine } from './stored-line.ts';

/** Reads a supervised job's conversations as they were checked and stored when the job was submitted, one at a time. */
export async function* readSftExamples(blobs: Blobs, key: string): AsyncGenerator<SftExample> {
  for await (const line of blobs.getJsonLines(key, readStoredLine)) yield sftExampleOf(line as WireSftLine);
}
