import type { RecordedSampling } from '@trainyard/store';

import type { RecordedChoice } from '../wire/recorded-choice.ts';
import { SharedPrompts } from './shared-prompts.ts';

/**
 * Records in a job's data: lines before its groups, which are stored as sent. The job then no longer needs
 * the store's records, and a record that several choices name is stored once. A line has only the part of its
 * prompt that differs from the previous line's.
 */
type RecordLine = { choice_record: string } & (
  | ({ is_plain: true } & Partial<PromptFields>)
  | (PromptFields & {
      token_ids: string;
      logprobs: string;
      /** Digest of the adapter that sampled them; null: the base model; absent: unknown, as in older jobs. */
      digest?: string | null;
      /** Null: sampled plainly from the model's distribution; absent: unknown. */
      sampling?: { settings: object; lost: string | null; drawn_logprobs?: string; kept_tokens?: string } | null;
    })
);

interface PromptFields {
  /** Number of leading ids taken from the previous line's prompt; absent: none. */
  prompt_shared?: number;
  /** Ids after the shared ones. */
  prompt_token_ids: string;
}

/** One line each: arrays of 32-bit numbers as base64, in the machine's byte order. */
export function* toRecordLines(records: ReadonlyMap<string, RecordedChoice>): Generator<RecordLine> {
  const prompts = new SharedPrompts();
  for (const [id, record] of records) yield { choice_record: id, ...fieldsOf(record, prompts) };
}

function fieldsOf(record: RecordedChoice, prompts: SharedPrompts) {
  if (record.kind === 'plain') {
    const { promptTokenIds: prompt } = record;
    return { is_plain: true as const, ...(prompt === undefined ? {} : promptFields(prompt, prompts)) };
  }
  const { tokenIds, logprobs, digest, sampling } = record;
  return {
    ...promptFields(record.promptTokenIds, prompts),
    token_ids: toBase64(tokenIds),
    logprobs: toBase64(logprobs),
    ...(digest === undefined ? {} : { digest }),
    ...(sampling === undefined ? {} : { sampling: sampling === null ? null : samplingFields(sampling) }),
  };
}

function promptFields(prompt: Int32Array, prompts: SharedPrompts): PromptFields {
  const numShared = prompts.sharedLength(prompt);
  prompts.keep(prompt);
  const rest = toBase64(prompt.subarray(numShared));
  return { ...(numShared > 0 ? { prompt_shared: numShared } : {}), prompt_token_ids: rest };
}

function samplingFields({ settings, lost, trace }: RecordedSampling) {
  const arrays = trace === null ? {} : { drawn_logprobs: toBase64(trace.logprobs), kept_tokens: toBase64(trace.kept) };
  return { settings, lost, ...arrays };
}

/** True if a line is a record: a client's group always has trajectories. */
export function isRecordLine(line: object): boolean {
  return 'choice_record' in line && !('trajectories' in line);
}

/** Reads the lines of records, in order from the first. */
export class RecordLineReader {
  readonly #prompts = new SharedPrompts();

  /** Null for a line that is a group. */
  read(line: object): [id: string, record: RecordedChoice] | null {
    if (!isRecordLine(line)) return null;
    const record = line as RecordLine;
    const id = record.choice_record;
    if ('is_plain' in record) {
      const { prompt_shared: numShared, prompt_token_ids: rest } = record;
      // Earlier releases stored no prompt: then the messages give the context of the choice.
      const prompt = rest === undefined ? {} : { promptTokenIds: this.#prompt(numShared, rest) };
      return [id, { kind: 'plain', ...prompt }];
    }
    const { digest, sampling } = record;
    return [
      id,
      {
        kind: 'sampled',
        promptTokenIds: this.#prompt(record.prompt_shared, record.prompt_token_ids),
        tokenIds: new Int32Array(fromBase64(record.token_ids)),
        logprobs: new Float32Array(fromBase64(record.logprobs)),
        ...(digest === undefined ? {} : { digest }),
        ...(sampling === undefined ? {} : { sampling: sampling === null ? null : readSampling(sampling) }),
      },
    ];
  }

  #prompt(numShared: number | undefined, rest: string): Int32Array {
    return this.#prompts.appendTo(numShared ?? 0, new Int32Array(fromBase64(rest)));
  }
}

function readSampling({
  settings,
  lost,
  drawn_logprobs: logprobs,
  kept_tokens: kept,
}: SamplingFields): RecordedSampling {
  const trace =
    logprobs === undefined || kept === undefined
      ? null
      : { logprobs: new Float32Array(fromBase64(logprobs)), kept: new Uint8Array(fromBase64(kept)) };
  return { settings, lost, trace };
}

type SamplingFields = NonNullable<Extract<RecordLine, { token_ids: string }>['sampling']>;

function toBase64({ buffer, byteOffset, byteLength }: Int32Array | Float32Array | Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('base64');
}

function fromBase64(text: string): ArrayBuffer {
  return Uint8Array.from(Buffer.from(text, 'base64')).buffer;
}
