import assert from 'node:assert/strict';
import {
  type ChoiceRecord,
  choiceRecordId,
  type ChoiceRecordLimits,
  type ChoiceRecords,
  DEFAULT_CHOICE_RECORD_LIMITS,
  type NewChoiceRecord,
} from './choice-records.ts';
import type { Queries, Sql } from '../../contract/sql.ts';
import { choiceSizeOf } from './choice-record-table.ts';
import { openTables, type Tables } from '../tables.ts';
import { settledWithin } from '../settled-within.ts';

/** Time between a failed write and the next. */
const RETRY_MS = 1000;
/**
 * Maximum time an answer waits for its record. Beyond it the store has a problem, and the answer is worth more.
 */
const PATIENCE_MS = 500;
/**
 * Maximum bytes in memory while the disk does not take them. Above it the oldest are dropped and are unknown,
 * like expired ones.
 */
const MAX_PENDING_BYTES = 64_000_000;

interface PendingRecord {
  record: NewChoiceRecord;
  createdAt: number;
}

/**
 * Sampled choices on their way to the database. They are written at once, because another process may be
 * asked for them. Choices of one turn of the event loop share a write, and those that arrive during a write
 * share the next. Writes do not wait for the disk.
 */
export class ChoiceRecordBuffer implements ChoiceRecords {
  readonly #sql: Sql;
  readonly #clock: () => number;
  readonly #limits: ChoiceRecordLimits;
  #pending: PendingRecord[] = [];
  #pendingBytes = 0;
  /** Bytes of all rows; null until counted. */
  #storedBytes: number | null = null;
  #timer: NodeJS.Timeout | null = null;
  /** The write that takes everything pending when it starts. */
  #next: Promise<void> | null = null;
  #written: Promise<void> = Promise.resolve();

  constructor(sql: Sql, clock: () => number, limits: Partial<ChoiceRecordLimits> = {}) {
    this.#sql = sql;
    this.#clock = clock;
    this.#limits = { ...DEFAULT_CHOICE_RECORD_LIMITS, ...limits };
  }

  /** @returns the record's id, once every process can find it, or after `PATIENCE_MS` */
  async add(record: NewChoiceRecord): Promise<string> {
    // A record that the schema refuses would block all that are written with it.
    assert(record.logprobs.length === record.tokenIds.length, 'one log-probability per token');
    this.#pending.push({ record, createdAt: this.#clock() });
    this.#pendingBytes += sizeOf(record);
    if (this.#pendingBytes > MAX_PENDING_BYTES) this.#dropOldest();
    await settledWithin(this.#flushNext(), PATIENCE_MS);
    return choiceRecordId(record);
  }

  /**
   * Writes everything pending and makes room. After a failure the records stay pending. Drops records of
   * deleted models.
   */
  async flush(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    // In turn: after this call, everything that an earlier flush took is written, too.
    this.#written = this.#written.catch(() => undefined).then(() => this.#write());
    await this.#written;
  }

  async #write(): Promise<void> {
    if (this.#pending.length === 0) return;
    const batch = this.#pending;
    const batchBytes = this.#pendingBytes;
    this.#pending = [];
    this.#pendingBytes = 0;
    try {
      const write = async (queries: Queries) => {
        this.#storedBytes = await this.#insert(openTables(queries), batch);
      };
      await this.#sql.transaction(write, { isDurable: false });
    } catch (error) {
      this.#storedBytes = null;
      this.#pending = [...batch, ...this.#pending];
      this.#pendingBytes += batchBytes;
      this.#dropOldest();
      this.#timer ??= setTimeout(() => this.#retry(), RETRY_MS).unref();
      throw error;
    }
  }

  /** Runs in a transaction. @returns the bytes of all rows afterwards */
  async #insert(tables: Tables, batch: readonly PendingRecord[]): Promise<number> {
    const table = tables.choiceRecords;
    let total = this.#storedBytes ?? (await table.sumBytes());
    const models = new Map<string, boolean>();
    for (const { record, createdAt } of batch) {
      const { modelId } = record;
      if (!models.has(modelId)) models.set(modelId, (await tables.models.get(modelId)) !== null);
      if (models.get(modelId) === true) total += await table.insert(record, createdAt);
    }
    if (total > this.#limits.maxBytes) total -= await table.prune(total - this.#limits.maxBytes);
    return total;
  }

  async find(entityId: string, recordIds: readonly string[]): Promise<Map<string, ChoiceRecord>> {
    await this.flush();
    const { choiceRecords } = openTables(this.#sql);
    const found = new Map<string, ChoiceRecord>();
    for (const id of recordIds) {
      const record = await choiceRecords.find(entityId, id);
      if (record !== null) found.set(id, record);
    }
    return found;
  }

  /**
   * Expires old records within a transaction. Only `purge` removes by age, so a wrong clock does not lose
   * records of minutes ago.
   */
  async purge({ choiceRecords }: Tables, now: number): Promise<void> {
    this.#storedBytes = null;
    await choiceRecords.expire(now - this.#limits.lifetimeMs);
  }

  /** Runs within a transaction, after `flush`. */
  async deleteOfModel({ choiceRecords }: Tables, modelId: string): Promise<void> {
    this.#storedBytes = null;
    await choiceRecords.deleteOfModel(modelId);
  }

  /** Schedules a write that other records may join. */
  #flushNext(): Promise<void> {
    this.#next ??= new Promise((resolve) => setImmediate(resolve)).then(async () => {
      // Earlier writes may take a while; records that arrive meanwhile join too.
      await this.#written.catch(() => undefined);
      this.#next = null;
      await this.flush();
    });
    return this.#next;
  }

  #retry(): void {
    this.#timer = null;
    // No caller waits for this write. After a failure the records stay pending, and the next write, search or
    // `close()` tries again.
    this.flush().catch(() => undefined);
  }

  #dropOldest(): void {
    let numDropped = 0;
    while (this.#pendingBytes > MAX_PENDING_BYTES) this.#pendingBytes -= sizeOf(this.#pending[numDropped++]!.record);
    this.#pending = this.#pending.slice(numDropped);
  }
}

function sizeOf(record: NewChoiceRecord): number {
  return record.promptTokenIds.byteLength + choiceSizeOf(record);
}
