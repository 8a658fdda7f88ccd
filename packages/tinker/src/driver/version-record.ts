import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import type { LoraConfig } from '@trainyard/trainer';

/** The file of a version's folder that says where its state is. */
export const RECORD_FILE = 'tinker.json';

/** A saved version: its state is on the server, this is what we know of it. */
export interface VersionRecord {
  /** The server that has the state. */
  readonly url: string;
  readonly baseModel: string;
  /** Address of the state there: `tinker://<run>/weights/<name>`. */
  readonly address: string;
  readonly numSteps: number;
  /** The kind of job that its momentum was gathered under. */
  readonly jobKind: string;
  readonly lora: LoraConfig;
  /** Digest of the adapter's files beside this one; null where the version is for going on alone. */
  readonly digest: string | null;
}

/** Null for a version that was not made by a server of the protocol, or whose record is damaged. */
export function readRecord(directory: string): VersionRecord | null {
  const path = join(directory, RECORD_FILE);
  if (!existsSync(path)) return null;
  try {
    const value = JSON.parse(readFileSync(path, 'utf8')) as VersionRecord;
    const isWhole =
      typeof value.url === 'string' && typeof value.address === 'string' && Number.isSafeInteger(value.numSteps);
    return isWhole ? value : null;
  } catch {
    return null;
  }
}
