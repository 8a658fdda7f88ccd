import type { Blobs } from '@trainyard/store';
import type { WireTrajectoryGroup } from '@trainyard/protocol';

import { isRecordLine, RecordLineReader } from '../choice-records/record-lines.ts';
import type { RecordedChoice } from '../wire/recorded-choice.ts';

const NEWLINE = 0x0a;
/** Records come before the groups; their lines start with this. */
const RECORD = Buffer.from('{"choice_record":');

/**
 * One group of a job or log, as stored. The others are not parsed: a job may have hundreds of MB of them.
 * @returns null if there is no such group
 * @throws {StoreError} `store.blob_missing` if the data are gone
 */
export async function readStoredGroup(blobs: Blobs, key: string, index: number): Promise<WireTrajectoryGroup | null> {
  let next = 0;
  for await (const line of linesOf(await blobs.openJsonLines(key))) {
    const isWanted = next === index;
    if (startsWith(line, RECORD)) {
      const value = JSON.parse(Buffer.concat(line).toString('utf8')) as object;
      if (isRecordLine(value)) continue;
      if (isWanted) return value as WireTrajectoryGroup;
    } else if (isWanted) return JSON.parse(Buffer.concat(line).toString('utf8')) as WireTrajectoryGroup;
    next += 1;
  }
  return null;
}

/**
 * Records stored before a job's groups.
 * @param wanted ids of the records to return
 * @throws {StoreError} `store.blob_missing` if the data are gone
 */
export async function readStoredRecords(
  blobs: Blobs,
  key: string,
  wanted: ReadonlySet<string>,
): Promise<Map<string, RecordedChoice>> {
  const records = new Map<string, RecordedChoice>();
  const reader = new RecordLineReader();
  for await (const line of linesOf(await blobs.openJsonLines(key))) {
    if (!startsWith(line, RECORD) || records.size === wanted.size) break;
    const record = reader.read(JSON.parse(Buffer.concat(line).toString('utf8')) as object);
    if (record === null) break;
    if (wanted.has(record[0])) records.set(...record);
  }
  return records;
}

/** Groups of a job or log with their numbers, as unparsed text, without the records before them. */
export async function* readGroupLines(blobs: Blobs, key: string): AsyncGenerator<{ index: number; line: Buffer[] }> {
  let index = 0;
  for await (const line of linesOf(await blobs.openJsonLines(key))) {
    // A client's group may start the same way; only a group has `trajectories`.
    if (startsWith(line, RECORD) && !Buffer.concat(line).includes('"trajectories"')) continue;
    yield { index, line };
    index += 1;
  }
}

/** Lines as lists of the chunks they came in. */
async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer[]> {
  let open: Buffer[] = [];
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      open.push(chunk.subarray(start, end));
      yield open;
      open = [];
      start = end + 1;
    }
    if (start < chunk.length) open.push(chunk.subarray(start));
  }
  if (open.length > 0) yield open;
}

function startsWith(line: readonly Buffer[], text: Buffer): boolean {
  let at = 0;
  for (const piece of line) {
    const part = piece.subarray(0, text.length - at);
    if (!part.equals(text.subarray(at, at + part.length))) return false;
    at += part.length;
    if (at === text.length) return true;
  }
  return false;
}
