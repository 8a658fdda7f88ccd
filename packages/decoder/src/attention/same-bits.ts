import { AttentionKernels } from '@trainyard/native';
import type { InstructionSet } from '@trainyard/native';
import { PagedAttention } from './paged-attention.ts';
import type { AttentionMethods, PagedAttentionSizes } from './paged-attention.ts';
import { PAGE_TOKENS, partTokens } from './page-format.ts';

type HeadSizes = Pick<PagedAttentionSizes, 'headSize' | 'numHeads' | 'numKvHeads'>;

interface SameBits {
  readonly ofPrompts: boolean;
  readonly instructions: InstructionSet | null;
}

const known = new Map<string, SameBits>();

/** True if ONNX Runtime's products give the bits of tiles, which depends on its build and this machine. */
export const promptsHaveSameBits = (sizes: HeadSizes): boolean => sameBits(sizes).ofPrompts;

/**
 * The widest instruction set with which native kernels give the bits of WebAssembly; null if none does, the
 * platform has no build of them, or they do not compute heads of this size.
 */
export const instructionsWithSameBits = (sizes: HeadSizes): InstructionSet | null => sameBits(sizes).instructions;

/** Tried once per head size and group. */
function sameBits({ headSize, numHeads, numKvHeads }: HeadSizes): SameBits {
  const group = numHeads / numKvHeads;
  const name = `${headSize} ${group}`;
  let found = known.get(name);
  if (found === undefined) {
    const inTiles = trial(headSize, group, {});
    const isSame = (methods: AttentionMethods): boolean =>
      trial(headSize, group, methods).every((outputs, i) =>
        outputs.every((value, at) => Object.is(value, inTiles[i]![at])),
      );
    found = {
      ofPrompts: isSame({ minPromptScores: 1 }),
      instructions:
        AttentionKernels.instructionSetsFor(headSize).find((instructions) => isSame({ instructions })) ?? null,
    };
    known.set(name, found);
  }
  return found;
}

/** @returns outputs of rows of a prompt's first part and after its second */
function trial(headSize: number, group: number, methods: AttentionMethods): Float32Array[] {
  const part = partTokens(headSize);
  const numTokens = 2 * part + 5 * PAGE_TOKENS + 7;
  const sizes = { numLayers: 1, numHeads: group, numKvHeads: 1, headSize, maxSequences: 1, numThreads: 1 };
  const lengths = { capacityTokens: numTokens, contextLength: numTokens, maxRows: numTokens };
  const attention = new PagedAttention({ ...sizes, ...lengths }, undefined, methods);
  const beginAt = (first: number, numRows: number): void => {
    const positions = Int32Array.from({ length: numRows }, (_, row) => first + row);
    attention.begin(numRows, new Int32Array(numRows), positions);
  };
  try {
    const [sequences, positions] = [new Int32Array(numTokens), Int32Array.from({ length: numTokens }, (_, i) => i)];
    attention.tables.append(0, numTokens);
    beginAt(0, numTokens);
    const [keys, values] = [1, 2].map((seed) => numbers(numTokens * headSize, 1, seed));
    // Some heads have a sink.
    const sinks = numbers(group, 16, 3).map((sink) => (sink < 0 ? -Infinity : sink));
    attention.write(0, { keys: keys!, values: values! }, { sequences, positions });
    return [
      { first: part - 65, numRows: 65 },
      { first: numTokens - 48, numRows: 48 },
    ].map(({ first, numRows }) => {
      beginAt(first, numRows);
      // Scores far enough apart that many weights are 0 and some tiny.
      attention.queries(0, numRows).set(numbers(numRows * group * headSize, 64, first));
      attention.attend(0, null, sinks);
      return attention.outputs(0, numRows).slice();
    });
  } finally {
    attention.close();
  }
}

function numbers(length: number, scale: number, seed: number): Float32Array {
  const found = new Float32Array(length);
  let state = seed + 1;
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    found[i] = (scale * state) / 2 ** 31;
  }
  return found;
}
