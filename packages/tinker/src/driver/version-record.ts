import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import type { LoraConfig } from '@trainyard/trainer';

export const RECORD_FILE = 'tinker.json';

/** A saved version whose state is on the server. */
export interface VersionRecord {
  readonly url: string;
  readonly baseModel: string;
  /** `tinker://<run>/weights/<name>`. */
  readonly address: string;
  readonly numSteps: number;
  /** Its momentum is of this kind of job. */
  readonly jobKind: string;
  readonly lora: LoraConfig;
  /** Digest of the adapter's files; null if the version is only for resuming. */
  readonly digest: string | null;
}

/** Null for a version of another kind of learner, or with a damaged record. */
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
