import type { RecordedSampling } from '@trainyard/store';

import type { RecordedChoice } from '../wire/training/recorded-choice.ts';

/**
 * Records in a job's data: lines in front of its groups, which stay as they were sent. The job needs the store's records no more, and one that
 * several choices name is there once.
 */
type RecordLine = { choice_record: string } & (
  | { is_plain: true }
  | {
      prompt_token_ids: string;
      token_ids: string;
      logprobs: string;
      /** Null: plainly from the model's distribution; absent: not known. */
      sampling?: { settings: object; lost: string | null; drawn_logprobs?: string; kept_tokens?: string } | null;
    }
);

/** One line each: its arrays of 32-bit numbers as base64, in the byte order of the machine. */
export function* toRecordLines(records: ReadonlyMap<string, RecordedChoice>): Generator<RecordLine> {
  for (const [id, record] of records) yield { choice_record: id, ...fieldsOf(record) };
}

function fieldsOf(record: RecordedChoice) {
  if (record.kind === 'plain') return { is_plain: true as const };
  const { promptTokenIds, tokenIds, logprobs, sampling } = record;
  return {
    prompt_token_ids: toBase64(promptTokenIds),
    token_ids: toBase64(tokenIds),
    logprobs: toBase64(logprobs),
    ...(sampling === undefined ? {} : { sampling: sampling === null ? null : samplingFields(sampling) }),
  };
}

function samplingFields({ settings, lost, trace }: RecordedSampling) {
  const arrays = trace === null ? {} : { drawn_logprobs: toBase64(trace.logprobs), kept_tokens: toBase64(trace.kept) };
  return { settings, lost, ...arrays };
}

/** Null for a line that is a group. */
export function readRecordLine(line: object): [id: string, record: RecordedChoice] | null {
  // A group that a client sent always has trajectories.
  if (!('choice_record' in line) || 'trajectories' in line) return null;
  const record = line as RecordLine;
  if ('is_plain' in record) return [record.choice_record, { kind: 'plain' }];
  const { sampling } = record;
  return [
    record.choice_record,
    {
      kind: 'sampled',
      promptTokenIds: new Int32Array(fromBase64(record.prompt_token_ids)),
      tokenIds: new Int32Array(fromBase64(record.token_ids)),
      logprobs: new Float32Array(fromBase64(record.logprobs)),
      ...(sampling === undefined ? {} : { sampling: sampling === null ? null : readSampling(sampling) }),
    },
  ];
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
