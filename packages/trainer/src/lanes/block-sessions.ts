import {
  type Architecture,
  BlockGraph,
  GraphSession,
  headGraph,
  type LoraConfig,
  type Tensors,
  type Value,
} from '@trainyard/transformer';

/** Every graph that a pass may run. `saving` also gives what backward starts from. */
export type GraphName =
  | 'attentionInput'
  | 'attention'
  | 'output'
  | 'savingOutput'
  | 'recomputingOutput'
  | 'head'
  | 'directionHead'
  | 'entropyHead'
  | 'replayHead'
  | 'replayDirectionHead'
  | 'replayEntropyHead'
  | 'outputBackward'
  | 'attentionBackward'
  | 'attentionInputBackward'
  | 'firstAttentionInputBackward';

/** Runs a graph; outputs that are not among `results` are allocated. */
export type RunGraph = (graph: GraphName, feeds: Tensors, results: Tensors) => Tensors;

/** Sessions for one architecture, shared by all its layers: weights are fed. Each is created when first needed. */
export class ModelSessions {
  readonly #graphs: Record<GraphName, () => Readonly<Record<string, Value>>>;
  readonly #numThreads: number;
  readonly #sessions = new Map<GraphName, GraphSession>();

  constructor(architecture: Architecture, lora: LoraConfig, numThreads: number) {
    const graph = new BlockGraph(architecture, lora);
    this.#numThreads = numThreads;
    this.#graphs = {
      attentionInput: () => graph.attentionInput(),
      attention: () => graph.attention(),
      output: () => ({ y: graph.output().y }),
      savingOutput: () => graph.output(),
      recomputingOutput: () => {
        const { x2, gate, up } = graph.output();
        return { x2, gate, up };
      },
      head: () => headGraph(architecture, { direction: false, entropy: false, replay: false }),
      directionHead: () => headGraph(architecture, { direction: true, entropy: false, replay: false }),
      entropyHead: () => headGraph(architecture, { direction: true, entropy: true, replay: false }),
      replayHead: () => headGraph(architecture, { direction: false, entropy: false, replay: true }),
      replayDirectionHead: () => headGraph(architecture, { direction: true, entropy: false, replay: true }),
      replayEntropyHead: () => headGraph(architecture, { direction: true, entropy: true, replay: true }),
      outputBackward: () => graph.outputBackward(),
      attentionBackward: () => graph.attentionBackward(),
      attentionInputBackward: () => graph.attentionInputBackward(true),
      firstAttentionInputBackward: () => graph.attentionInputBackward(false),
    };
  }

  get(name: GraphName): GraphSession {
    let session = this.#sessions.get(name);
    if (session === undefined) {
      session = new GraphSession(this.#graphs[name](), {
        numThreads: this.#numThreads,
        savedAsInputs: name === 'outputBackward',
      });
      this.#sessions.set(name, session);
    }
    return session;
  }

  /** No run may follow. */
  close(): void {
    for (const session of this.#sessions.values()) session.close();
    this.#sessions.clear();
  }
}
