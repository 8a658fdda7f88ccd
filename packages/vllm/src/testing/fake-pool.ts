import { sampleParams } from '@trainyard/backend/testing';
import { byteTokenizer } from '@trainyard/engine/testing';
import type { BackendMember, SampleOutput, SampleParams, SampleTotals } from '@trainyard/backend';
import type { ServerTimes } from '../server/vllm-server.ts';
import { VllmBackend, type VllmBackendOptions } from '../vllm-backend.ts';
import { FakeVllm, type FakeVllmOptions } from './fake-vllm.ts';
import { openBrain } from './open-brain.ts';

/** Long, so that only the test's actions cause a check or a loss of a server. */
const LONG: ServerTimes = {
  connectMs: 60_000,
  answerMs: 60_000,
  computeMs: 60_000,
  loadMs: 60_000,
  healthEveryMs: 3_600_000,
  healthMs: 60_000,
  stallMs: 3_600_000,
  probeAfterMs: 3_600_000,
  compareEveryMs: 3_600_000,
};

export const PROMPT = [...Buffer.from('a prompt of a test')];

export interface FakePoolOptions {
  readonly numServers?: number;
  readonly fake?: Partial<FakeVllmOptions>;
  readonly backend?: Partial<Omit<VllmBackendOptions, 'times'>>;
  readonly times?: Partial<ServerTimes>;
}

export class FakePool implements AsyncDisposable {
  readonly fakes: FakeVllm[];
  readonly backend: VllmBackend;
  readonly log: string[];
  /** Read at each use, so a test may change them. */
  readonly times: { -readonly [Name in keyof ServerTimes]: number };

  private constructor(fakes: FakeVllm[], backend: VllmBackend, log: string[], times: ServerTimes) {
    this.fakes = fakes;
    this.backend = backend;
    this.log = log;
    this.times = times;
  }

  /** Not started. */
  static async open({ numServers = 1, fake = {}, backend = {}, times }: FakePoolOptions = {}): Promise<FakePool> {
    const fakes = await Promise.all(
      Array.from({ length: numServers }, () => FakeVllm.open({ brain: openBrain(), policy: 'fcfs', ...fake })),
    );
    const log: string[] = [];
    const all = { ...LONG, ...times };
    return new FakePool(
      fakes,
      new VllmBackend({
        urls: fakes.map(({ url }) => url),
        modelId: 'scripted',
        ends: byteTokenizer,
        maxRequests: 64,
        log: (line) => void log.push(line),
        ...backend,
        times: all,
      }),
      log,
      all,
    );
  }

  static async start(options: FakePoolOptions = {}): Promise<FakePool> {
    const pool = await FakePool.open(options);
    await pool.backend.start();
    return pool;
  }

  get fake(): FakeVllm {
    return this.fakes[0]!;
  }

  async members(): Promise<readonly BackendMember[]> {
    return (await this.backend.health()).members ?? [];
  }

  sample(
    options: Parameters<typeof sampleParams>[0] = {},
    ids: readonly number[] = PROMPT,
    signal: AbortSignal = new AbortController().signal,
  ): AsyncGenerator<SampleOutput, SampleTotals, undefined> {
    return this.backend.sample(ids, sampleParams(options), signal);
  }

  /** Ids of the first choice. */
  async ids(options: Parameters<typeof sampleParams>[0] = {}, ids: readonly number[] = PROMPT): Promise<number[]> {
    const all: number[] = [];
    for await (const output of this.sample(options, ids))
      if (output.kind === 'tokens' && output.index === 0) all.push(...output.tokenIds);
    return all;
  }

  async homeOf(ids: readonly number[], options: Partial<SampleParams> = {}): Promise<FakeVllm> {
    await this.ids(options as Parameters<typeof sampleParams>[0], ids);
    return this.fakes.toSorted((a, b) => b.samples.length - a.samples.length)[0]!;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.backend.close();
    await Promise.all(this.fakes.map((fake) => fake.close()));
  }
}
