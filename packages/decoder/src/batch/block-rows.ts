import { addsPlainOutputs, linearDims } from '@trainyard/transformer';
import type { Architecture, ProjectionName } from '@trainyard/transformer';
import type { DecoderMemory } from '../memory/decoder-memory.ts';

/** Rows [rows, width] in kernel memory. */
export interface Rows {
  readonly data: Float32Array;
  readonly dims: readonly [number, number];
}

/** Rows of a batch between the parts of a block, and the sums for their products. */
export interface BlockRows {
  /** Input and output of a block. */
  readonly x: Rows;
  /** Rows after attention. */
  readonly x2: Rows;
  /** Normalised: input of the next products. */
  readonly h: Rows;
  readonly o: Rows;
  readonly activated: Rows;
  readonly sums: Readonly<Record<ProjectionName, Rows>>;
  /** No adapter adds to the sums: they start with the residual or 0 and are only read. */
  readonly isPlain: boolean;
}

export class BlockBuffers {
  readonly #widths: Readonly<Record<Name, number>>;
  readonly #buffers: Readonly<Record<Name, Float32Array>>;
  readonly #zeros: Float32Array;
  readonly #addsPlain: boolean;

  static bytesFor(architecture: Architecture, maxRows: number): number {
    const widths = Object.values(widthsOf(architecture));
    const zeros = Math.max(...widths);
    return 4 * maxRows * (zeros + widths.reduce((sum, width) => sum + width, 0)) + 64 * (widths.length + 1);
  }

  constructor(architecture: Architecture, maxRows: number, memory: DecoderMemory) {
    this.#widths = widthsOf(architecture);
    this.#addsPlain = addsPlainOutputs(architecture);
    const taken = Object.entries(this.#widths).map(([name, width]) => [name, memory.take(maxRows * width)]);
    this.#buffers = Object.fromEntries(taken) as Record<Name, Float32Array>;
    this.#zeros = memory.take(maxRows * Math.max(...Object.values(this.#widths)));
  }

  of(numRows: number, isPlain: boolean): BlockRows {
    const rows = (name: Name, data = this.#buffers[name]): Rows => ({
      data: data.subarray(0, numRows * this.#widths[name]),
      dims: [numRows, this.#widths[name]],
    });
    const [x, x2] = [rows('x'), rows('x2')];
    const zeros = (name: Name) => rows(name, this.#zeros);
    const [o, down] = this.#addsPlain ? [x, x2] : [zeros('oSum'), zeros('down')];
    const [qkv, convIn, oSum] = [rows('qkv'), rows('convIn'), rows('oSum')];
    const sums = isPlain
      ? { qkv: zeros('qkv'), convIn: zeros('convIn'), o, convOut: o, gate: zeros('gate'), up: zeros('up'), down }
      : { qkv, convIn, o: oSum, convOut: oSum, gate: rows('gate'), up: rows('up'), down: rows('down') };
    return { x, x2, h: rows('h'), o: rows('o'), activated: rows('activated'), sums, isPlain };
  }
}

type Name = 'x' | 'x2' | 'h' | 'o' | 'activated' | 'qkv' | 'convIn' | 'oSum' | 'gate' | 'up' | 'down';

function widthsOf(architecture: Architecture): Record<Name, number> {
  const { hiddenSize, feedForwardSize, convolution } = architecture;
  const [q, k] = [linearDims(architecture, 'q').out, linearDims(architecture, 'k').out];
  return {
    x: hiddenSize,
    x2: hiddenSize,
    h: hiddenSize,
    o: q,
    activated: feedForwardSize,
    qkv: q + 2 * k,
    convIn: convolution === null ? 0 : 3 * hiddenSize,
    oSum: hiddenSize,
    gate: feedForwardSize,
    up: feedForwardSize,
    down: hiddenSize,
  };
}
