import type { SampledTokens } from '../wire/recorded-choice.ts';

/**
 * Records in a job's data: lines in front of its groups, which stay as they were sent. The job needs the store's records no more, and one that
 * several choices name is there once.
 */
interface RecordLine {
  choice_record: string;
  prompt_token_ids: string;
  token_ids: string;
  logprobs: string;
}

/** One line each: its arrays of 32-bit numbers as base64, in the byte order of the machine. */
export function* toRecordLines(records: ReadonlyMap<string, SampledTokens>): Generator<RecordLine> {
  for (const [id, { promptTokenIds, tokenIds, logprobs }] of records)
    yield {
      choice_record: id,
      prompt_token_ids: toBase64(promptTokenIds),
      token_ids: toBase64(tokenIds),
      logprobs: toBase64(logprobs),
    };
}

/** Null for a line that is a group. */
export function readRecordLine(line: object): [id: string, record: SampledTokens] | null {
  // A group that a client sent always has trajectories.
  if (!('choice_record' in line) || 'trajectories' in line) return null;
  const { choice_record: id, ...arrays } = line as RecordLine;
  return [
    id,
    {
      promptTokenIds: new Int32Array(fromBase64(arrays.prompt_token_ids)),
      tokenIds: new Int32Array(fromBase64(arrays.token_ids)),
      logprobs: new Float32Array(fromBase64(arrays.logprobs)),
    },
  ];
}

function toBase64({ buffer, byteOffset, byteLength }: Int32Array | Float32Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('base64');
}

function fromBase64(text: string): ArrayBuffer {
  return Uint8Array.from(Buffer.from(text, 'base64')).buffer;
}
