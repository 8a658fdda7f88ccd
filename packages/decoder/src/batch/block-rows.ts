import { addsPlainOutputs, projectionDims, projectionsOf } from '@trainyard/transformer';
import type { Architecture, outputProjection, ProjectionName } from '@trainyard/transformer';
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
  /** Outputs of attention or what a block has instead, by the product that reads them; one memory. */
  readonly mixed: Readonly<Record<ReturnType<typeof outputProjection>, Rows>>;
  readonly activated: Rows;
  readonly sums: Readonly<Record<ProjectionName, Rows>>;
  /** Places of products that only the next step reads. */
  readonly products: Readonly<Record<'qkv' | 'convIn' | 'gate' | 'up', Rows>>;
  /** No adapter adds to the sums: they start with the residual or 0 and are only read. */
  readonly isPlain: boolean;
}

export class BlockBuffers {
  readonly #widths: Readonly<Record<Name, number>>;
  readonly #buffers: Readonly<Record<Name, Float32Array>>;
  readonly #zeros: Float32Array;
  readonly #addsPlain: boolean;
  readonly #mixedWidths: Readonly<Record<'o' | 'convOut', number>>;

  static bytesFor(architecture: Architecture, maxRows: number): number {
    const widths = Object.values(widthsOf(architecture));
    const zeros = Math.max(...widths);
    return 4 * maxRows * (zeros + widths.reduce((sum, width) => sum + width, 0)) + 64 * (widths.length + 1);
  }

  constructor(architecture: Architecture, maxRows: number, memory: DecoderMemory) {
    this.#widths = widthsOf(architecture);
    this.#addsPlain = addsPlainOutputs(architecture);
    this.#mixedWidths = mixedWidths(architecture);
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
    const products = { qkv: rows('qkv'), convIn: rows('convIn'), gate: rows('gate'), up: rows('up') };
    const oSum = rows('oSum');
    const sums = isPlain
      ? { qkv: zeros('qkv'), convIn: zeros('convIn'), o, convOut: o, gate: zeros('gate'), up: zeros('up'), down }
      : { ...products, o: oSum, convOut: oSum, down: rows('down') };
    const mixed = (width: number): Rows => ({
      data: this.#buffers.mixed.subarray(0, numRows * width),
      dims: [numRows, width],
    });
    const { o: ofAttention, convOut } = this.#mixedWidths;
    const inputs = { o: mixed(ofAttention), convOut: mixed(convOut) };
    return { x, x2, h: rows('h'), mixed: inputs, activated: rows('activated'), sums, products, isPlain };
  }
}

type Name = 'x' | 'x2' | 'h' | 'mixed' | 'activated' | 'qkv' | 'convIn' | 'oSum' | 'gate' | 'up' | 'down';

function widthsOf(architecture: Architecture): Record<Name, number> {
  const { hiddenSize, feedForwardSize } = architecture;
  const present = projectionsOf(architecture);
  const outOf = (name: ProjectionName) => (present.includes(name) ? projectionDims(architecture, name).out : 0);
  return {
    x: hiddenSize,
    x2: hiddenSize,
    h: hiddenSize,
    mixed: Math.max(...Object.values(mixedWidths(architecture))),
    activated: feedForwardSize,
    qkv: outOf('qkv'),
    convIn: outOf('convIn'),
    oSum: hiddenSize,
    gate: feedForwardSize,
    up: feedForwardSize,
    down: hiddenSize,
  };
}

/** 0 for a product that no block has. */
function mixedWidths(architecture: Architecture): Record<'o' | 'convOut', number> {
  const present = projectionsOf(architecture);
  const inOf = (name: 'o' | 'convOut') => (present.includes(name) ? projectionDims(architecture, name).in : 0);
  return { o: inOf('o'), convOut: inOf('convOut') };
}
