import assert from 'node:assert/strict';
import {
  type ChoiceRecord,
  choiceRecordId,
  type ChoiceRecordLimits,
  DEFAULT_CHOICE_RECORD_LIMITS,
  type NewChoiceRecord,
} from '../choice-record.ts';
import type { Database } from './database.ts';
import type { Tables } from './tables.ts';

const FLUSH_MS = 1000;
/** What may wait in memory while the disk does not take it; then the oldest are given up, and are unknown like expired ones. */
const MAX_PENDING_BYTES = 64_000_000;

/** Sampled choices on their way to disk: written together, at most a second later, since a commit for each would stop the answers. */
export class ChoiceRecordBuffer {
  readonly #database: Database;
  readonly #tables: Tables;
  readonly #clock: () => number;
  readonly #limits: ChoiceRecordLimits;
  #pending: { record: NewChoiceRecord; createdAt: number }[] = [];
  #pendingBytes = 0;
  /** Of all rows; null = to be counted. */
  #storedBytes: number | null = null;
  #timer: NodeJS.Timeout | null = null;

  constructor(database: Database, tables: Tables, clock: () => number, limits: Partial<ChoiceRecordLimits> = {}) {
    this.#database = database;
    this.#tables = tables;
    this.#clock = clock;
    this.#limits = { ...DEFAULT_CHOICE_RECORD_LIMITS, ...limits };
  }

  add(record: NewChoiceRecord): string {
    // One that the schema refuses would hold up all that are written with it.
    assert(record.logprobs.length === record.tokenIds.length, 'one log-probability for each token');
    this.#pending.push({ record, createdAt: this.#clock() });
    this.#pendingBytes += sizeOf(record);
    this.#timer ??= setTimeout(() => this.#flushLater(), FLUSH_MS).unref();
    return choiceRecordId(record);
  }

  /** Writes what is pending and makes room; when that fails it stays pending. Records of models that are deleted by now are not kept. */
  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#pending.length === 0) return;
    const before = this.#storedBytes;
    this.#storedBytes = null;
    this.#storedBytes = this.#database.write(() => {
      const table = this.#tables.choiceRecords;
      let total = before ?? table.sumBytes();
      for (const { record, createdAt } of this.#pending)
        if (this.#tables.models.get(record.modelId) !== null) total += table.insert(record, createdAt);
      total -= table.expire(this.#oldest());
      if (total > this.#limits.maxBytes) total -= table.prune(total - this.#limits.maxBytes);
      return total;
    });
    this.#pending = [];
    this.#pendingBytes = 0;
  }

  find(entityId: string, recordIds: readonly string[]): Map<string, ChoiceRecord> {
    this.flush();
    const found = new Map<string, ChoiceRecord>();
    for (const id of recordIds) {
      const record = this.#tables.choiceRecords.find(entityId, id, this.#oldest());
      if (record !== null) found.set(id, record);
    }
    return found;
  }

  /** To be called in a transaction. */
  purge(now: number): void {
    this.#storedBytes = null;
    this.#tables.choiceRecords.expire(this.#oldest(now));
  }

  /** To be called in a transaction, after `flush`. */
  deleteOfModel(modelId: string): void {
    this.#storedBytes = null;
    this.#tables.choiceRecords.deleteOfModel(modelId);
  }

  #oldest(now: number = this.#clock()): number {
    return now - this.#limits.lifetimeMs;
  }

  #flushLater(): void {
    this.#timer = null;
    try {
      this.flush();
    } catch {
      // Nobody waits for this write. The records are still pending: the next one, a search or `close()` tries again.
      while (this.#pendingBytes > MAX_PENDING_BYTES) this.#pendingBytes -= sizeOf(this.#pending.shift()!.record);
    }
  }
}

function sizeOf({ promptTokenIds, tokenIds, logprobs }: NewChoiceRecord): number {
  return promptTokenIds.byteLength + tokenIds.byteLength + logprobs.byteLength;
}
