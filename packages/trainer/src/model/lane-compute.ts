import type { Tensors } from '../graph/session.ts';
import { floats } from '../graph/session.ts';
import type { BlockIntermediates, GradientBuffers } from './activations.ts';
import type { Architecture } from './architecture.ts';
import type { AdapterGradients, BlockParameters } from './block-adapter.ts';
import { BlockCompute } from './block-compute.ts';
import type { GraphName, RunGraph } from './block-sessions.ts';
import { ModelSessions } from './block-sessions.ts';
import type { HeadBuffers } from './head-compute.ts';
import { HeadCompute } from './head-compute.ts';
import type { LoraConfig } from './policy-model.ts';
import type { LaneShare } from './row-plan.ts';
import { attentionBlocks } from './row-plan.ts';

/** What a lane is made of. Large arrays are shared memory. */
export interface LaneSetup {
  readonly architecture: Architecture;
  readonly lora: LoraConfig;
  /** Threads of one graph run. */
  readonly numThreads: number;
  readonly blocks: readonly BlockParameters[];
  /** [H] */
  readonly outputNorm: Float32Array;
  /** [V, H] */
  readonly vocabulary: Float32Array;
}

/** What a lane works on during one pass over a row. All of it but the share is shared memory. */
export interface LanePass {
  readonly lane: number;
  readonly share: LaneShare;
  /** [T, H] by layer; behind the last one, the final hidden state. */
  readonly inputs: readonly Float32Array[];
  readonly intermediates: readonly BlockIntermediates[];
  readonly head: HeadBuffers;
  /** Null when no backward will follow. */
  readonly backward: { readonly gradients: GradientBuffers; readonly adapters: readonly AdapterGradients[] } | null;
}

/** One step over the lane's parts of the row: of a layer, or of the head. */
export type LaneOperation =
  | { readonly kind: 'output' | 'savingOutput' | 'recomputingOutput'; readonly layer: number }
  | { readonly kind: 'attentionInput' | 'attention'; readonly layer: number }
  | { readonly kind: 'outputBackward' | 'attentionBackward'; readonly layer: number }
  | { readonly kind: 'attentionInputBackward'; readonly layer: number }
  | { readonly kind: 'head' };

/** Wall time of one graph run, and the floating-point operations of its matrix products. */
export interface GraphTiming {
  readonly graph: GraphName;
  readonly milliseconds: number;
  readonly flops: number;
}

/** One of several threads that compute a pass side by side, each on its own tokens and queries. */
export class LaneCompute {
  readonly #sessions: ModelSessions;
  readonly #blocks: readonly BlockCompute[];
  readonly #head: HeadCompute;
  #pass: LanePass | null = null;
  #attention: ReturnType<typeof attentionBlocks> = [];
  #timings: GraphTiming[] = [];

  constructor(setup: LaneSetup) {
    const { architecture, lora, numThreads } = setup;
    this.#sessions = new ModelSessions(architecture, lora, numThreads);
    this.#blocks = setup.blocks.map((parameters) => new BlockCompute(architecture, parameters, this.#run));
    this.#head = new HeadCompute(architecture, setup, this.#run);
  }

  begin(pass: LanePass): void {
    this.#pass = pass;
    this.#attention = attentionBlocks(pass.share);
  }

  /** @param round which of the lane's parts; one that it does not have is nothing to do */
  async run(operations: readonly LaneOperation[], round: number): Promise<readonly GraphTiming[]> {
    this.#timings = [];
    for (const operation of operations) await this.#step(operation, round);
    return this.#timings;
  }

  /** No run may follow. */
  close(): void {
    this.#pass = null;
    this.#sessions.close();
  }

  async #step(operation: LaneOperation, round: number): Promise<void> {
    const pass = this.#pass!;
    const { share } = pass;
    if (operation.kind === 'head') {
      const piece = share.head[round];
      if (piece !== undefined) await this.#head.forward(piece.range, piece.part, pass.inputs.at(-1)!, pass.head);
      return;
    }
    const { kind, layer } = operation;
    const block = this.#blocks[layer]!;
    const own = pass.intermediates[layer]!;
    const x = pass.inputs[layer]!;
    if (kind === 'attention') {
      for (const queries of this.#attention[round] ?? []) await block.attention(queries, own);
      return;
    }
    if (kind === 'attentionBackward') {
      const { gradients } = pass.backward!;
      const into = { dk: gradients.dk[pass.lane]!, dv: gradients.dv[pass.lane]! };
      if (round === 0) for (const buffer of [into.dk, into.dv]) buffer.fill(0);
      for (const queries of this.#attention[round] ?? []) await block.attentionBackward(queries, own, gradients, into);
      return;
    }
    const range = share.chunks[round];
    if (range === undefined) return;
    switch (kind) {
      case 'attentionInput':
        return await block.attentionInput(range, share, x, own);
      case 'output':
      case 'savingOutput':
      case 'recomputingOutput':
        return await block.output(kind, range, x, own, pass.inputs[layer + 1]!);
      case 'outputBackward':
        return this.#add(layer, await block.outputBackward(range, own, pass.backward!.gradients));
      case 'attentionInputBackward':
        return this.#add(
          layer,
          await block.attentionInputBackward(layer === 0, range, share, x, pass.backward!.gradients),
        );
      default:
        return kind satisfies never;
    }
  }

  #add(layer: number, outputs: Tensors): void {
    for (const [name, sum] of Object.entries(this.#pass!.backward!.adapters[layer]!)) {
      const part = outputs[name];
      if (part === undefined) continue;
      const values = floats(part);
      for (let i = 0; i < sum.length; i++) sum[i]! += values[i]!;
    }
  }

  readonly #run: RunGraph = async (graph, feeds, results) => {
    const session = await this.#sessions.get(graph);
    const started = performance.now();
    const outputs = await session.run(feeds, results);
    this.#timings.push({ graph, milliseconds: performance.now() - started, flops: session.flops(feeds) });
    return outputs;
  };
}
