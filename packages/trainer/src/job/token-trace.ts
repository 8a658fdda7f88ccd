/**
 * Trained tokens of a trajectory, for inspection: a few bytes per token, compressed, and readable without the
 * model.
 */
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import type { Floats } from '../objectives/loss-input.ts';
import type { TrainingRow } from '../packing/pack.ts';

export interface TracedSequence {
  /** [T] */
  readonly tokenIds: Int32Array;
  /** [T] at the draw; NaN if unknown. */
  readonly sampledLogprobs: Float32Array;
  /** [T] at the step, before it changed the weights; NaN for untrained tokens. */
  readonly trainedLogprobs: Float32Array;
  /** [T] nats, of the whole vocabulary at the step; NaN for untrained tokens. Null: not computed, or an old trace. */
  readonly entropies: Float32Array | null;
  /** Factor in the loss of each trained token. */
  readonly advantage: number;
  /** Weight in the loss of each trained token. */
  readonly weight: number;
}

export interface TrajectoryTrace {
  readonly groupIndex: number;
  readonly trajectoryIndex: number;
  /** Ordered by turn. */
  readonly sequences: readonly TracedSequence[];
}

/** A decoded sequence. */
export interface ReadSequence extends TracedSequence {
  /** [T] */
  readonly tokenBytes: readonly Uint8Array[];
}

/** Version 1 has no entropies. */
const VERSION = 2;
const HEADER_BYTES = 8;
/** Numbers of tokens and of text bytes, advantage and weight. */
const SEQUENCE_HEADER_BYTES = 24;

/** Values of one row under the step's initial weights, [N] by its trained tokens. */
export interface RowValues {
  readonly logprobs: Floats;
  readonly entropies: Floats | null;
}

/** @param rows of one gradient step @param values of each row */
export function traceStep(rows: readonly TrainingRow[], values: readonly RowValues[]): TrajectoryTrace[] {
  type Placed = { readonly sequenceIndex: number; readonly traced: TracedSequence };
  const traces = new Map<string, { groupIndex: number; trajectoryIndex: number; placed: Placed[] }>();
  rows.forEach(({ members, sampledLogprobs, weights }, rowIndex) => {
    let at = 0;
    for (const { groupIndex, trajectoryIndex, sequenceIndex, tokenIds, lossMask, advantage } of members) {
      const sampled = new Float32Array(tokenIds.length).fill(Number.NaN);
      const trained = new Float32Array(tokenIds.length).fill(Number.NaN);
      const { logprobs, entropies: ofRow } = values[rowIndex]!;
      const entropies = ofRow === null ? null : new Float32Array(tokenIds.length).fill(Number.NaN);
      const weight = weights[at] ?? 0;
      for (let i = 1; i < tokenIds.length; i++) {
        if (lossMask[i] === 0) continue;
        sampled[i] = sampledLogprobs[at]!;
        trained[i] = logprobs[at]!;
        if (entropies !== null) entropies[i] = ofRow![at]!;
        at += 1;
      }
      const key = `${groupIndex} ${trajectoryIndex}`;
      const trace = traces.get(key) ?? { groupIndex, trajectoryIndex, placed: [] };
      traces.set(key, trace);
      const traced = { tokenIds, sampledLogprobs: sampled, trainedLogprobs: trained, entropies, advantage, weight };
      trace.placed.push({ sequenceIndex, traced });
    }
  });
  // Packing shuffles them.
  const inOrder = (placed: readonly Placed[]) => placed.toSorted((a, b) => a.sequenceIndex - b.sequenceIndex);
  return Array.from(traces.values(), ({ placed, ...place }) => ({
    ...place,
    sequences: inOrder(placed).map(({ traced }) => traced),
  }));
}

/** @param tokenBytes stored too, so that reading needs no vocabulary */
export function encodeTokenTrace(
  sequences: readonly TracedSequence[],
  tokenBytes: (id: number) => Uint8Array,
): Uint8Array {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt32LE(VERSION, 0);
  header.writeUInt32LE(sequences.length, 4);
  const parts: Uint8Array[] = [header];
  for (const { tokenIds, sampledLogprobs, trainedLogprobs, entropies, advantage, weight } of sequences) {
    const texts = Array.from(tokenIds, tokenBytes);
    const lengths = Uint32Array.from(texts, ({ length }) => length);
    const own = Buffer.alloc(SEQUENCE_HEADER_BYTES);
    own.writeUInt32LE(tokenIds.length, 0);
    own.writeUInt32LE(
      lengths.reduce((sum, length) => sum + length, 0),
      4,
    );
    own.writeDoubleLE(advantage, 8);
    own.writeDoubleLE(weight, 16);
    const kept = entropies ?? new Float32Array(tokenIds.length).fill(Number.NaN);
    parts.push(own, ...[tokenIds, sampledLogprobs, trainedLogprobs, kept, lengths].map(bytesOf), ...texts);
  }
  return zstdCompressSync(Buffer.concat(parts));
}

/** @throws {Error} for anything but a trace of `encodeTokenTrace` */
export function decodeTokenTrace(trace: Uint8Array): ReadSequence[] {
  const bytes = zstdDecompressSync(trace);
  const version = bytes.readUInt32LE(0);
  if (version !== VERSION && version !== 1)
    throw new Error(`unsupported token trace version ${version}, expected ${VERSION}`);
  const numSequences = bytes.readUInt32LE(4);
  let at = HEADER_BYTES;
  const take = (length: number): ArrayBuffer => {
    const part = Uint8Array.from(bytes.subarray(at, at + length)).buffer;
    at += length;
    return part;
  };
  return Array.from({ length: numSequences }, () => {
    const numTokens = bytes.readUInt32LE(at);
    const numTextBytes = bytes.readUInt32LE(at + 4);
    const advantage = bytes.readDoubleLE(at + 8);
    const weight = bytes.readDoubleLE(at + 16);
    at += SEQUENCE_HEADER_BYTES;
    const tokenIds = new Int32Array(take(4 * numTokens));
    const sampledLogprobs = new Float32Array(take(4 * numTokens));
    const trainedLogprobs = new Float32Array(take(4 * numTokens));
    const kept = version === 1 ? null : new Float32Array(take(4 * numTokens));
    const entropies = kept?.every(Number.isNaN) === false ? kept : null;
    const lengths = new Uint32Array(take(4 * numTokens));
    const text = new Uint8Array(take(numTextBytes));
    let from = 0;
    const tokenBytes = Array.from(lengths, (length) => text.subarray(from, (from += length)));
    return { tokenIds, sampledLogprobs, trainedLogprobs, entropies, advantage, weight, tokenBytes };
  });
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
