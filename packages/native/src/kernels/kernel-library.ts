import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { KoffiFunc, LibraryHandle } from 'koffi';
import { koffi } from '../binding/koffi.ts';

/** Instruction sets that the kernels are compiled for, the widest first, with their bits in `processor.c`. */
export const INSTRUCTION_SETS = { avx512: 2, avx2: 1, neon: 4 } as const;
export type InstructionSet = keyof typeof INSTRUCTION_SETS;

const ENDINGS: Readonly<Record<string, string>> = { linux: 'so', darwin: 'dylib', win32: 'dll' };

export interface KernelLibrary {
  readonly handle: LibraryHandle;
  /** Sets of this processor, the widest first. */
  readonly instructionSets: readonly InstructionSet[];
}

let loaded: KernelLibrary | null | undefined;

/**
 * This repository's kernels in C, loaded with the first call; null if there is no build for this platform, or the
 * system refuses to load it. Callers have slower kernels with the same bits.
 */
export function kernelLibrary(): KernelLibrary | null {
  if (loaded === undefined) loaded = load();
  return loaded;
}

/** Instruction sets of this machine that kernels are built for, the widest first. */
export const kernelInstructionSets = (): readonly InstructionSet[] => kernelLibrary()?.instructionSets ?? [];

/**
 * Binds a kernel.
 *
 * @param name without the instruction set
 * @param instructions of {@link kernelInstructionSets}
 */
export function bindKernel<Parameters extends unknown[]>(
  name: string,
  parameters: readonly string[],
  instructions: InstructionSet,
): KoffiFunc<(...parameters: Parameters) => void> {
  const library = kernelLibrary();
  assert(library !== null, 'no kernels are built for this platform');
  return library.handle.func(`${name}_${instructions}`, 'void', [...parameters]) as KoffiFunc<
    (...parameters: Parameters) => void
  >;
}

/** @returns path of the build for a platform, which may not exist */
export function kernelPath(platform: string = process.platform, arch: string = process.arch): string {
  const name = `${platform}-${arch}.${ENDINGS[platform] ?? 'so'}`;
  return fileURLToPath(new URL(`../../kernels/prebuilt/${name}`, import.meta.url));
}

function load(): KernelLibrary | null {
  const path = kernelPath();
  if (!existsSync(path)) return null;
  let handle: LibraryHandle;
  try {
    handle = koffi().load(path);
  } catch {
    return null;
  }
  const available = (handle.func('instruction_sets', 'int32', []) as KoffiFunc<() => number>)();
  const sets = Object.entries(INSTRUCTION_SETS) as [InstructionSet, number][];
  return { handle, instructionSets: sets.filter(([, bit]) => (available & bit) !== 0).map(([name]) => name) };
}
