import { setImmediate as nextTurn } from 'node:timers/promises';
import { FlatLogits, KvFullError } from '../runner/model-runner.ts';
import type {
  DrawnRows,
  Eventually,
  LogitRows,
  ModelRunner,
  RowDraw,
  RunnerAdapter,
  StepBatch,
} from '../runner/model-runner.ts';
import { SamplerBuffers, sampleToken } from '../sampling/sampler.ts';

/**
 * Fills `row`, `[V]`, with the logits after `tokens` (prompt and reply so far). Must depend only on its
 * arguments.
 */
export type LogitsScript = (tokens: readonly number[], adapterPath: string | null, row: Float32Array) => void;

export interface ScriptedRunnerOptions {
  vocabSize: number;
  /** Default: every row 0, so that all tokens are equally likely. */
  logits?: LogitsScript;
  /** Default 4096. */
  capacityTokens?: number;
  /** Default `capacityTokens`. */
  contextLength?: number;
  /** Default 64. */
  maxSequences?: number;
  /** Default 512. */
  batchTokens?: number;
  /** Default 1. */
  adaptersPerBatch?: number;
  /** Default 1. */
  shareGranularity?: number;
  /** Default false. True draws instead of the engine if the request allows it. */
  drawsOnDevice?: boolean;
  /** Default false. True answers in a later turn of the event loop, like a runner in another process. */
  answersLater?: boolean;
  /** Adapter files and their sizes; others cannot be loaded. Default: every path loads with 1 byte. */
  adapterBytes?: Readonly<Record<string, number>>;
}

/**
 * A test runner whose cells store tokens, and whose logits are a function of them: wrong, missing or foreign
 * cells give different replies or throw.
 */
export class ScriptedRunner implements ModelRunner {
  readonly vocabSize: number;
  readonly capacityTokens: number;
  readonly contextLength: number;
  readonly maxSequences: number;
  readonly batchTokens: number;
  readonly adaptersPerBatch: number;
  readonly shareGranularity: number;
  readonly runAndDraw?: (batch: StepBatch, draws: readonly (RowDraw | null)[]) => Eventually<DrawnRows>;
  numRowsRead = 0;
  numComputedTokens = 0;
  /** Paths of the adapters of each batch so far, null = base. */
  readonly adaptersOfBatch: (string | null)[][] = [];
  readonly batchSizes: number[] = [];
  readonly openAdapters = new Set<string>();
  /** Called before each batch; may throw as if from the runner. */
  beforeRun: (batch: StepBatch) => void = () => {};
  readonly #script: LogitsScript;
  readonly #adapterBytes: Readonly<Record<string, number>> | undefined;
  readonly #cells: Cell[][];
  readonly #answersLater: boolean;
  #numUsedCells = 0;
  #isRunning = false;

  constructor(options: ScriptedRunnerOptions) {
    this.vocabSize = options.vocabSize;
    this.capacityTokens = options.capacityTokens ?? 4096;
    this.contextLength = options.contextLength ?? this.capacityTokens;
    this.maxSequences = options.maxSequences ?? 64;
    this.batchTokens = options.batchTokens ?? 512;
    this.adaptersPerBatch = options.adaptersPerBatch ?? 1;
    this.shareGranularity = options.shareGranularity ?? 1;
    this.#answersLater = options.answersLater ?? false;
    if (options.drawsOnDevice)
      this.runAndDraw = (batch, draws) => this.#answer(() => this.#computeAndDraw(batch, draws));
    this.#script = options.logits ?? ((_tokens, _adapterPath, row) => void row.fill(0));
    this.#adapterBytes = options.adapterBytes;
    this.#cells = Array.from({ length: this.maxSequences }, () => []);
  }

  run(batch: StepBatch): Eventually<LogitRows> {
    return this.#answer(() => this.#counted(new FlatLogits(this.#compute(batch), this.vocabSize)));
  }

  #answer<Rows extends LogitRows>(compute: () => Rows): Eventually<Rows> {
    this.#checkIdle('run');
    if (!this.#answersLater) return compute();
    this.#isRunning = true;
    return nextTurn()
      .then(compute)
      .finally(() => (this.#isRunning = false));
  }

  #checkIdle(method: string): void {
    if (this.#isRunning) throw new Error(`${method} while a batch is being computed`);
  }

  #counted(rows: LogitRows): LogitRows {
    return {
      row: (index) => {
        this.numRowsRead++;
        return rows.row(index);
      },
    };
  }

  #computeAndDraw(batch: StepBatch, draws: readonly (RowDraw | null)[]): DrawnRows {
    if (draws.length !== batch.numLogits) throw new Error(`${draws.length} draws for ${batch.numLogits} rows`);
    const rows = new FlatLogits(this.#compute(batch), this.vocabSize);
    const buffers = new SamplerBuffers(this.vocabSize);
    const tokens = draws.map((draw, index) =>
      draw === null ? null : sampleToken(rows.row(index), draw, buffers).token,
    );
    return {
      row: (index) => {
        if (tokens[index] !== null) throw new Error(`row ${index} was drawn from and stays on the device`);
        return this.#counted(rows).row(index);
      },
      token: (index) => tokens[index] ?? -1,
    };
  }

  #compute(batch: StepBatch): Float32Array {
    this.beforeRun(batch);
    if (batch.length === 0) throw new Error('an empty batch');
    if (this.#numUsedCells + batch.length > this.capacityTokens) {
      throw new KvFullError(
        `${batch.length} cells wanted, ${this.capacityTokens - this.#numUsedCells} of ${this.capacityTokens} free`,
      );
    }
    const adapterPaths = batch.adapters.map(pathOf);
    if (adapterPaths.length > this.adaptersPerBatch)
      throw new Error(`${adapterPaths.length} adapters in a batch of at most ${this.adaptersPerBatch}`);
    const closed = adapterPaths.find((path) => path !== null && !this.openAdapters.has(path));
    if (closed !== undefined) throw new Error(`the adapter ${closed} is closed`);
    const logits = new Float32Array(batch.numLogits * this.vocabSize);
    let row = 0;
    for (let i = 0; i < batch.length; i++) {
      const cells = this.#cellsOf(batch.sequences[i]!);
      const position = batch.positions[i]!;
      const adapterPath = pathOf(batch.adapterOf(i));
      if (position !== cells.length) throw new Error(`position ${position} in a sequence of ${cells.length} tokens`);
      cells.push({ token: batch.tokens[i]!, adapterPath, numHolders: 1 });
      this.#numUsedCells++;
      if (batch.wantsLogits[i] === 0) continue;
      const foreign = cells.find((cell) => cell.adapterPath !== adapterPath);
      if (foreign) throw new Error(`cells computed under ${foreign.adapterPath} are read under ${adapterPath}`);
      const tokens = cells.map((cell) => cell.token);
      this.#script(tokens, adapterPath, logits.subarray(row * this.vocabSize, ++row * this.vocabSize));
    }
    this.numComputedTokens += batch.length;
    this.adaptersOfBatch.push(adapterPaths);
    this.batchSizes.push(batch.length);
    return logits;
  }

  share(from: number, to: number, length: number): void {
    this.#checkIdle('share');
    if (length % this.shareGranularity !== 0)
      throw new Error(`cannot share ${length} cells: not a multiple of ${this.shareGranularity}`);
    const source = this.#cellsOf(from);
    const target = this.#cellsOf(to);
    if (target.length > 0 || from === to || length > source.length)
      throw new Error(`cannot share ${length} cells of ${from} with ${to}`);
    for (const cell of source.slice(0, length)) {
      cell.numHolders++;
      target.push(cell);
    }
  }

  forget(sequence: number, fromPosition: number): void {
    this.#checkIdle('forget');
    for (const cell of this.#cellsOf(sequence).splice(fromPosition)) {
      if (--cell.numHolders === 0) this.#numUsedCells--;
    }
  }

  loadAdapter(path: string): RunnerAdapter {
    const sizeBytes = this.#adapterBytes === undefined ? 1 : this.#adapterBytes[path];
    if (sizeBytes === undefined) throw new Error(`there is no file ${path}`);
    this.openAdapters.add(path);
    return new ScriptedAdapter(path, sizeBytes, () => this.openAdapters.delete(path));
  }

  close(): void {
    for (let sequence = 0; sequence < this.maxSequences; sequence++) this.forget(sequence, 0);
  }

  /** Cells in use, counted by holders; the engine's ledger must agree. */
  get numUsedCells(): number {
    return this.#numUsedCells;
  }

  #cellsOf(sequence: number): Cell[] {
    const cells = this.#cells[sequence];
    if (cells === undefined) throw new Error(`sequence ${sequence} of ${this.maxSequences}`);
    return cells;
  }
}

interface Cell {
  readonly token: number;
  readonly adapterPath: string | null;
  numHolders: number;
}

class ScriptedAdapter implements RunnerAdapter {
  readonly path: string;
  readonly sizeBytes: number;
  readonly #onClose: () => void;
  constructor(path: string, sizeBytes: number, onClose: () => void) {
    this.path = path;
    this.sizeBytes = sizeBytes;
    this.#onClose = onClose;
  }
  close(): void {
    this.#onClose();
  }
}

function pathOf(adapter: RunnerAdapter | null): string | null {
  if (adapter === null) return null;
  if (adapter instanceof ScriptedAdapter) return adapter.path;
  throw new Error('the adapter was loaded by another runner');
}
