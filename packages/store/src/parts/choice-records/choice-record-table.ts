import {
  type ChoiceRecord,
  isRecordIdByTokens,
  type NewChoiceRecord,
  parseChoiceRecordId,
  recordIdByTokens,
  type RecordedSampling,
} from './choice-records.ts';
import type { Statements } from '../../contract/sql.ts';
import { packPromptIds, unpackPromptIds } from './prompt-ids.ts';

/** Bytes of an answer in addition to its arrays: ids, digest, index entries, and unused space in pages. */
const ROW_BYTES = 1000;
/** Answers examined per step of making room. */
const PRUNED_AT_ONCE = 256;

const TOTAL = 'cast(coalesce(sum(size_bytes), 0) as bigint) as total';

type RecordRow = {
  id: string;
  choice_index: number;
  entity_id: string;
  model_id: string;
  step: number;
  digest: string | null;
  created_at: number;
  prompt_token_ids: Uint8Array<ArrayBuffer>;
  token_ids: Uint8Array<ArrayBuffer>;
  logprobs: Uint8Array<ArrayBuffer>;
  sampling: string | null;
  drawn_logprobs: Uint8Array<ArrayBuffer> | null;
  kept_tokens: Uint8Array<ArrayBuffer> | null;
};

/** Maximum choices with equal tokens and log-probabilities to compare; with more, none is returned. */
const MAX_EQUAL = 64;

const SELECT = `select a.id, c.choice_index, a.entity_id, a.model_id, a.step, a.digest, a.created_at, a.prompt_token_ids, c.token_ids,
    c.logprobs, c.sampling, c.drawn_logprobs, c.kept_tokens
  from answer_records a join choice_records c on c.answer_position = a.position`;

export class ChoiceRecordTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  /** @returns the added bytes; 0 if the choice exists already */
  async insert(input: NewChoiceRecord, createdAt: number): Promise<number> {
    const choiceBytes = choiceSizeOf(input);
    const trace = input.sampling?.trace ?? null;
    const prompt = packPromptIds(input.promptTokenIds);
    const wholeBytes = ROW_BYTES + prompt.byteLength + choiceBytes;
    const isNewAnswer = await this.#sql.run(
      `insert into answer_records (id, entity_id, model_id, step, digest, created_at, size_bytes, prompt_token_ids)
       values (?, ?, ?, ?, ?, ?, ?, ?) on conflict (id) do nothing`,
      input.answerId,
      input.entityId,
      input.modelId,
      input.step,
      input.digest,
      createdAt,
      wholeBytes,
      prompt,
    );
    const isNewChoice = await this.#sql.run(
      `insert into choice_records
         (answer_position, choice_index, token_ids, logprobs, sampling, drawn_logprobs, kept_tokens, tokens_digest)
       select position, ?, ?, ?, ?, ?, ?, ? from answer_records where id = ? on conflict do nothing`,
      input.choiceIndex,
      bytesOf(input.tokenIds),
      bytesOf(input.logprobs),
      toSamplingText(input.sampling),
      trace === null ? null : bytesOf(trace.logprobs),
      trace === null ? null : bytesOf(trace.kept),
      recordIdByTokens(input),
      input.answerId,
    );
    if (isNewAnswer === 1) return wholeBytes;
    if (isNewChoice === 0) return 0;
    const grow = 'update answer_records set size_bytes = size_bytes + ? where id = ?';
    await this.#sql.run(grow, choiceBytes, input.answerId);
    return choiceBytes;
  }

  /** Returns null if it is unknown or of another entity. */
  async find(entityId: string, recordId: string): Promise<ChoiceRecord | null> {
    if (isRecordIdByTokens(recordId)) return await this.#findByTokens(entityId, recordId);
    const id = parseChoiceRecordId(recordId);
    if (id === null) return null;
    const row = await this.#sql.get<RecordRow>(
      `${SELECT} where a.id = ? and c.choice_index = ? and a.entity_id = ?`,
      id.answerId,
      id.choiceIndex,
      entityId,
    );
    return row === undefined ? null : toRecord(row);
  }

  /**
   * Returns the newest of equal choices; null if they were sampled in different ways or with different
   * weights.
   */
  async #findByTokens(entityId: string, recordId: string): Promise<ChoiceRecord | null> {
    const rows = await this.#sql.all<RecordRow>(
      `${SELECT} where c.tokens_digest = ? and a.entity_id = ? order by a.position desc limit ?`,
      recordId,
      entityId,
      MAX_EQUAL,
    );
    const [newest] = rows;
    if (newest === undefined || rows.length === MAX_EQUAL) return null;
    const isAlike = ({ sampling, digest }: RecordRow): boolean =>
      sampling === newest.sampling && digest === newest.digest;
    return rows.every(isAlike) ? toRecord(newest) : null;
  }

  async sumBytes(): Promise<number> {
    return (await this.#sql.get<{ total: number }>(`select ${TOTAL} from answer_records`))?.total ?? 0;
  }

  /** Removes answers not younger than `after`. @returns their bytes */
  async expire(after: number): Promise<number> {
    const sum = `select ${TOTAL} from answer_records where created_at <= ?`;
    const numBytes = (await this.#sql.get<{ total: number }>(sum, after))?.total ?? 0;
    if (numBytes > 0) await this.#sql.run('delete from answer_records where created_at <= ?', after);
    return numBytes;
  }

  /** Removes the oldest answers until `numBytes` are freed. @returns the freed bytes */
  async prune(numBytes: number): Promise<number> {
    let removed = 0;
    while (removed < numBytes) {
      const oldest = await this.#sql.all<{ position: number; size_bytes: number }>(
        'select position, size_bytes from answer_records order by position limit ?',
        PRUNED_AT_ONCE,
      );
      let last = 0;
      for (const { position, size_bytes: size } of oldest) {
        if (removed >= numBytes) break;
        removed += size;
        last = position;
      }
      if (last === 0) break;
      await this.#sql.run('delete from answer_records where position <= ?', last);
    }
    return removed;
  }

  async deleteOfModel(modelId: string): Promise<void> {
    await this.#sql.run('delete from answer_records where model_id = ?', modelId);
  }
}

function toRecord(row: RecordRow): ChoiceRecord {
  return {
    answerId: row.id,
    choiceIndex: row.choice_index,
    entityId: row.entity_id,
    modelId: row.model_id,
    step: row.step,
    digest: row.digest,
    createdAt: row.created_at,
    promptTokenIds: unpackPromptIds(row.prompt_token_ids),
    tokenIds: new Int32Array(bufferOf(row.token_ids)),
    logprobs: new Float32Array(bufferOf(row.logprobs)),
    ...samplingOf(row),
  };
}

/** Bytes of a record without its row and its prompt. */
export function choiceSizeOf({ tokenIds, logprobs, sampling }: NewChoiceRecord): number {
  const trace = sampling?.trace ?? null;
  const traceBytes = trace === null ? 0 : trace.logprobs.byteLength + trace.kept.byteLength;
  return tokenIds.byteLength + logprobs.byteLength + traceBytes + (toSamplingText(sampling)?.length ?? 0);
}

function toSamplingText(sampling: RecordedSampling | null | undefined): string | null {
  if (sampling === undefined) return null;
  return JSON.stringify(sampling === null ? null : { settings: sampling.settings, lost: sampling.lost });
}

function samplingOf(row: RecordRow): Pick<NewChoiceRecord, 'sampling'> {
  if (row.sampling === null) return {};
  const stored = JSON.parse(row.sampling) as Omit<RecordedSampling, 'trace'> | null;
  if (stored === null) return { sampling: null };
  const { drawn_logprobs: logprobs, kept_tokens: kept } = row;
  const trace =
    logprobs === null || kept === null
      ? null
      : { logprobs: new Float32Array(bufferOf(logprobs)), kept: Uint8Array.from(kept) };
  return { sampling: { ...stored, trace } };
}

function bytesOf({ buffer, byteOffset, byteLength }: Int32Array | Float32Array | Uint8Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** Copies bytes to a new buffer, which is aligned for numbers. */
function bufferOf(bytes: Uint8Array): ArrayBuffer {
  return Uint8Array.from(bytes).buffer;
}
