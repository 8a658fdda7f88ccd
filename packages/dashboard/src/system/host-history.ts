import type { HostsObject } from '@trainyard/sdk';

/** Figures of the service at one time. */
export interface HostSample {
  /** Unix seconds. */
  readonly at: number;
  readonly load: number | null;
  /** Used memory of the machine, from 0 to 1. */
  readonly memory: number | null;
  /** Tokens sampled by all base models since they were loaded; null if the key may not read it. */
  readonly generatedTokens: number | null;
}

/** Ten minutes of polls. */
const MAX_SAMPLES = 300;

/** Adds the state of the service to its history, which is as old as the page. */
export function withSample(history: readonly HostSample[], hosts: HostsObject, at: number): readonly HostSample[] {
  const { machine, sampling } = hosts;
  const counts = sampling.hosts.map(({ generated_tokens: count }) => count);
  const sample = {
    at,
    load: machine?.load ?? null,
    memory: machine === null ? null : 1 - machine.free_memory_bytes / machine.memory_bytes,
    generatedTokens: counts.includes(null) ? null : counts.reduce<number>((sum, count) => sum + (count ?? 0), 0),
  };
  return [...history, sample].slice(-MAX_SAMPLES);
}

/** Sampled tokens per second between neighbouring samples; 0 after a model was loaded again. */
export function tokenRates(history: readonly HostSample[]): { readonly x: number[]; readonly y: number[] } {
  const x: number[] = [];
  const y: number[] = [];
  history.forEach(({ at, generatedTokens }, index) => {
    const before = history[index - 1];
    if (before === undefined || generatedTokens === null || before.generatedTokens === null || at <= before.at) return;
    x.push(at);
    y.push(Math.max(0, (generatedTokens - before.generatedTokens) / (at - before.at)));
  });
  return { x, y };
}
