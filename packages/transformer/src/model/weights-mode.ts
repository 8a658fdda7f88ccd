import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import type { GgufFile } from '@trainyard/native';

/** `streamed`: large matrices stay in the model file and are expanded when they are used. */
export type WeightsMode = 'resident' | 'streamed';
export type WeightsSetting = WeightsMode | 'auto';

/** At most: single precision in the trainer, and in an engine without kernels for a file's types. */
const RESIDENT_BYTES_PER_PARAMETER = 8;
/** Part of the machine's memory for resident weights; the rest is for tokens, other processes and other programs. */
const RESIDENT_PART = 0.5;

/**
 * Engine and trainer choose by the same numbers, so their choices agree; if one had another choice, bits would still
 * be the same.
 *
 * @param setting `auto`: resident if weights in both hosts take at most half of the machine's memory
 * @param memoryBytes default: memory of the machine, or the limit of this process
 */
export function weightsModeOf(
  setting: WeightsSetting,
  file: Pick<GgufFile, 'tensors'>,
  memoryBytes: number = machineMemory(),
): WeightsMode {
  if (setting !== 'auto') return setting;
  return RESIDENT_BYTES_PER_PARAMETER * parameterCount(file) <= RESIDENT_PART * memoryBytes ? 'resident' : 'streamed';
}

/** @param isCounted by name of a tensor. Default: all */
export const parameterCount = (
  { tensors }: Pick<GgufFile, 'tensors'>,
  isCounted: (name: string) => boolean = () => true,
): number =>
  tensors
    .values()
    .filter(({ name }) => isCounted(name))
    .reduce((sum, { dims }) => sum + dims.reduce((product, dim) => product * dim, 1), 0);

/** Memory of the machine, or the limit of this process if it is smaller. */
export function machineMemory(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}

/**
 * Memory that this process could get. `process.availableMemory` counts no caches on macOS, and counts those of files
 * as used in a container: a model that was just read would not fit.
 */
function availableMemory(): number {
  let available = Infinity;
  try {
    const [, kilobytes] = /^MemAvailable:\s+(\d+) kB$/m.exec(readFileSync('/proc/meminfo', 'utf8')) ?? [];
    if (kilobytes !== undefined) available = 1024 * Number(kilobytes);
  } catch {
    // Another operating system.
  }
  return Math.min(available, machineMemory());
}

/**
 * Reason why a model does not fit, or null.
 *
 * @param needs bytes by mode, without the memory of tokens
 * @param availableBytes default: memory that this process could get now
 */
export function memoryProblem(
  mode: WeightsMode,
  needs: Readonly<Record<WeightsMode, number>>,
  availableBytes: number = availableMemory(),
): string | null {
  if (needs[mode] <= availableBytes) return null;
  const gigabytes = (bytes: number) => `${(bytes / 1e9).toFixed(1)} GB`;
  const remedy =
    mode === 'resident' && needs.streamed <= availableBytes
      ? 'use --weights streamed'
      : 'use a smaller file such as Q4_0 of the same model, or free memory';
  return `${mode} weights need ${gigabytes(needs[mode])} of memory, ${gigabytes(availableBytes)} are free: ${remedy}`;
}
