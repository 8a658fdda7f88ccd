import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { GgufFile, GgufTensorInfo } from '@trainyard/native';
import {
  type Architecture,
  linearDims,
  orderValueHeads,
  readWeights,
  ROPE_FACTORS,
  toHalves,
  valueHeads,
} from '@trainyard/transformer';
import { writeDurableText } from '../checkpoint/durable-directory.ts';
import { OrtPolicyModel } from '../lanes/ort-policy-model.ts';
import type { ComputeOptions } from '../model/policy-model.ts';
import { SafetensorsReader } from '../checkpoint/safetensors-reader.ts';
import { SafetensorsWriter } from '../checkpoint/safetensors-writer.ts';
import { folderConfig } from '../model-folder/folder-config.ts';
import { putRows, takeRows, type TensorSources } from '../model-folder/feed-forward-layouts.ts';
import { hasOffset, headPart, isNegatedExponential, tensorSources } from '../model-folder/tensor-table.ts';
import { transformersFamily } from '../model-folder/transformers-families.ts';
import { huggingFaceConfig, type ModelFacts } from './hugging-face-config.ts';
import type { MergedType, MergedWeights } from './merged-weights.ts';

/** config.json has their values. */
const FACTOR_TENSORS: readonly string[] = Object.values(ROPE_FACTORS);

const MODEL_FILE = 'model.safetensors';
const CONFIG_FILE = 'config.json';

export interface MergedModel {
  readonly source: GgufFile;
  readonly architecture: Architecture;
  readonly facts: ModelFacts;
  readonly type: MergedType;
}

/**
 * Writes model.safetensors and config.json for transformers. Heads of q and k return to half-rotation order if
 * the model file interleaves them.
 *
 * @throws {TrainerError} `trainer.architecture_unsupported`
 */
export async function writeMergedSafetensors(
  directory: string,
  { source, architecture, facts, type }: MergedModel,
  weights: MergedWeights,
  options: ComputeOptions,
): Promise<void> {
  const { short, long } = ROPE_FACTORS;
  const factors = architecture.longRope && { short: source.readF32(short), long: source.readF32(long) };
  const config = huggingFaceConfig(architecture, facts, factors, type);
  const tensors = [
    ...folderTensors(
      [...source.tensors.values()].filter(({ name }) => isExported(name, architecture)),
      architecture,
      (name) => asInFolder(name, inHalves(name, weights.read(name, type), architecture), architecture),
    ),
    ...absentBiases(architecture).map(({ name, length }) => ({
      name,
      dims: [length],
      read: () => new Float32Array(length),
    })),
  ];
  const dtype = type === 'f16' ? 'F16' : 'F32';
  // transformers requires a format name.
  const metadata = { format: 'pt' };
  using writer = new SafetensorsWriter(
    join(directory, MODEL_FILE),
    tensors.map(({ name, dims }) => ({ name, dims, dtype })),
    metadata,
  );
  for (const { read } of tensors) {
    await options.gate?.acquire(options.signal);
    try {
      options.signal?.throwIfAborted();
      writer.add(read());
    } finally {
      options.gate?.release();
    }
  }
  writer.finish();
  writeDurableText(join(directory, CONFIG_FILE), `${JSON.stringify(config, null, 2)}\n`);
}

interface NamedPart {
  readonly name: string;
  readonly dims: readonly number[];
  /** Parts are read in order. */
  readonly read: () => Float32Array;
}

/** Tensors of a folder that have the values of those of a file. @param read values of one by its name in the file */
function folderTensors(
  stored: readonly GgufTensorInfo[],
  architecture: Architecture,
  read: (name: string) => Float32Array,
): NamedPart[] {
  const all = stored.map(({ name, dims }) => ({ name, sources: sourcesOf(name, architecture, dims.toReversed()) }));
  return all.flatMap(({ name, sources: { names, dims, rows } }): NamedPart[] => {
    const [first] = names;
    if (rows === null) return namedParts(names, dims, () => read(name));
    // The tensor of the first rows stands for all that share a tensor of the folder.
    if (rows.first > 0) return [];
    const readAll = () => {
      const whole = new Float32Array(dims.reduce((product, dim) => product * dim));
      for (const other of all)
        if (other.sources.names[0] === first && other.sources.rows !== null)
          putRows(other.sources.rows, read(other.name), whole);
      return whole;
    };
    return [{ name: first!, dims, read: readAll }];
  });
}

/** Parts of a tensor along its first axis, which has one name each; the tensor is read once. @param dims of a part */
function namedParts(names: readonly string[], dims: readonly number[], read: () => Float32Array): NamedPart[] {
  let whole: Float32Array = new Float32Array();
  return names.map((name, part) => ({
    name,
    dims,
    read: () => {
      if (part === 0) whole = read();
      const length = whole.length / (names.length - part);
      const own = whole.subarray(0, length);
      whole = whole.subarray(length);
      return own;
    },
  }));
}

const sourcesOf = (name: string, architecture: Architecture, dims: readonly number[]): TensorSources =>
  tensorSources(architecture, transformersFamily(architecture)?.feedForwardLayouts[0], name, dims);

/** Opens such a directory with a zero adapter; the caller closes the model. */
export function openMergedSafetensors(directory: string, numThreads: number): OrtPolicyModel {
  const config = JSON.parse(readFileSync(join(directory, CONFIG_FILE), 'utf8')) as Record<string, unknown>;
  const { ropeScaling, ...folder } = folderConfig(config);
  const architecture = { ...folder.architecture, hasInterleavedHeads: false };
  using reader = SafetensorsReader.open(join(directory, MODEL_FILE));
  // The part that reading weights needs.
  const file = {
    tensors: {
      has: (name: string) => FACTOR_TENSORS.includes(name) || reader.entries.has(nameOrNone(name, architecture)),
    },
    readF32: (name: string, into?: Float32Array, first?: number) => {
      if (name === ROPE_FACTORS.short && ropeScaling.kind === 'longrope') return Float32Array.from(ropeScaling.short);
      const values = asInFile(name, readSources(reader, sourcesOf(name, architecture, [])), architecture);
      if (into === undefined) return values;
      const from = first ?? 0;
      into.set(values.subarray(from, from + into.length));
      return into;
    },
  } as Parameters<typeof readWeights>[0];
  return new OrtPolicyModel(architecture, readWeights(file, architecture), { numThreads });
}

/** Returns '' for tensors that the layout lacks, which match no file entry. */
function nameOrNone(ggufName: string, architecture: Architecture): string {
  return ggufName === 'rope_freqs.weight' ? '' : sourcesOf(ggufName, architecture, []).names[0]!;
}

function readSources(reader: SafetensorsReader, { names, rows }: TensorSources): Float32Array {
  const values = joined(names.map((name) => reader.readF32(name)));
  if (rows === null) return values;
  const own = new Float32Array((values.length / rows.of) * rows.count);
  takeRows(rows, values, own);
  return own;
}

function joined(parts: readonly Float32Array[]): Float32Array {
  if (parts.length === 1) return parts[0]!;
  const all = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0));
  parts.reduce((at, part) => (all.set(part, at), at + part.length), 0);
  return all;
}

const offsetOf = (ggufName: string, architecture: Architecture): number =>
  hasOffset(ggufName) ? (transformersFamily(architecture)?.normOffset ?? 0) : 0;

/** Factors are in config.json, and blocks after the last layer predict further tokens. */
const isExported = (name: string, { numLayers }: Architecture): boolean =>
  !FACTOR_TENSORS.includes(name) && Number(/^blk\.(\d+)\./.exec(name)?.[1] ?? 0) < numLayers;

/** Weights as transformers stores them. */
function asInFolder(ggufName: string, values: Float32Array, architecture: Architecture): Float32Array {
  const offset = offsetOf(ggufName, architecture);
  const grouped = orderValueHeads(values, valueHeads(architecture, headPart(ggufName)), 'groups');
  if (isNegatedExponential(ggufName)) return grouped.map((value) => Math.log(-value));
  return offset === 0 ? grouped : grouped.map((value) => value - offset);
}

function asInFile(ggufName: string, values: Float32Array, architecture: Architecture): Float32Array {
  const offset = offsetOf(ggufName, architecture);
  const tiled = orderValueHeads(values, valueHeads(architecture, headPart(ggufName)), 'tiles');
  if (isNegatedExponential(ggufName)) return tiled.map((value) => -Math.exp(value));
  return offset === 0 ? tiled : tiled.map((value) => value + offset);
}

/** Rows of q and k in transformers' order. */
function inHalves(name: string, values: Float32Array, architecture: Architecture): Float32Array {
  const [, linear] = /^blk\.\d+\.attn_([qk])\.(?:weight|bias)$/.exec(name) ?? [];
  if (linear === undefined || !architecture.hasInterleavedHeads) return values;
  const numHeads = linear === 'q' ? architecture.numHeads : architecture.numKvHeads;
  return toHalves(values, numHeads, values.length / (numHeads * architecture.headSize));
}

/** Zero biases that transformers' class has and the model file lacks. */
function absentBiases(architecture: Architecture): { name: string; length: number }[] {
  const { name, hasAttentionBias, hasSinks, numLayers } = architecture;
  const alwaysHasBiases = name === 'qwen2' || hasSinks;
  if (hasAttentionBias === alwaysHasBiases) return [];
  const linears = alwaysHasBiases ? (['q', 'k', 'v'] as const) : (['o'] as const);
  return Array.from({ length: numLayers }, (_, layer) =>
    linears.map((linear) => ({
      name: `model.layers.${layer}.self_attn.${linear}_proj.bias`,
      length: linearDims(architecture, linear).out,
    })),
  ).flat();
}
