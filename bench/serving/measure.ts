import { otherCores, processesBelow, sampleCpu, secondsOf } from '../machine.ts';
import { listenerOf, proportionalBytes } from './local-process.ts';
import type { ServerUnderTest } from './server-under-test.ts';
import type { Workload } from './workloads.ts';

/** Interval of memory readings, ms. */
const MEMORY_EVERY_MS = 500;

/** One run of one workload on one server. */
export interface Measurement {
  /** Completion tokens over wall time. */
  readonly tokensPerSecond: number;
  /** Milliseconds, one per answer. */
  readonly firstTokenMs: readonly number[];
  /** Milliseconds. */
  readonly gapsMs: readonly number[];
  readonly promptTokens: number;
  /** Null if the server does not report it. */
  readonly cachedTokens: number | null;
  /** Processor time of the server per completion token, ms; null for a remote server. */
  readonly cpuMsPerToken: number | null;
  /** Cores that the server used, on average; null for a remote server. */
  readonly coresUsed: number | null;
  /** Peak memory of the server at the readings; null for a remote server. */
  readonly peakBytes: number | null;
  /** Cores used by neither it nor this process. */
  readonly otherCores: number | null;
}

/** @param idle processes of the other servers: what they use counts as the use of others */
export async function measure(
  server: ServerUnderTest,
  workload: Workload,
  { seed, idle }: { readonly seed: number; readonly idle: readonly number[] },
): Promise<Measurement> {
  const roots = rootsOf([server]);
  const root = roots[0] ?? null;
  let peakBytes: number | null = null;
  const look = (): void => {
    if (root !== null) peakBytes = Math.max(peakBytes ?? 0, proportionalBytes(processesBelow(roots)) ?? 0);
  };
  const before = sampleCpu(roots, idle);
  const secondsBefore = secondsOf(roots);
  const startedAt = performance.now();
  const timer = setInterval(look, MEMORY_EVERY_MS);
  try {
    const answers = await workload.run(server, seed);
    const wallSeconds = (performance.now() - startedAt) / 1000;
    look();
    const cpuSeconds = root === null ? null : secondsOf(roots) - secondsBefore;
    const completionTokens = sum(answers.map((answer) => answer.completionTokens));
    const cached = answers.map((answer) => answer.cachedTokens);
    return {
      tokensPerSecond: completionTokens / wallSeconds,
      firstTokenMs: answers.map((answer) => answer.firstTokenMs),
      gapsMs: answers.flatMap((answer) => answer.gapsMs),
      promptTokens: sum(answers.map((answer) => answer.promptTokens)),
      cachedTokens: cached.includes(null) ? null : sum(cached.map(Number)),
      cpuMsPerToken: cpuSeconds === null ? null : (cpuSeconds * 1000) / completionTokens,
      coresUsed: cpuSeconds === null ? null : cpuSeconds / wallSeconds,
      peakBytes,
      otherCores: otherCores(before, sampleCpu(roots, idle)),
    };
  } finally {
    clearInterval(timer);
  }
}

/** Processes that listen on the ports of these servers, without those of other machines. */
export function rootsOf(servers: readonly ServerUnderTest[]): number[] {
  return servers.flatMap(({ localPort }) => (localPort === null ? [] : (listenerOf(localPort) ?? [])));
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
