import { spawn } from 'node:child_process';
import { once } from 'node:events';

import { expect, test } from 'vitest';

import { FULL, type LoopStep, requireWork, waitingOf } from '../../bench/loop/loop-work.ts';
import { otherCores, sampleCpu, waitUntilIdle } from '../../bench/machine.ts';
import type { Measurement } from '../../bench/serving/measure.ts';
import { parsePeer } from '../../bench/serving/peers/parse-peer.ts';
import { renderReport } from '../../bench/serving/report.ts';

const measurement = (change: Partial<Measurement>): Measurement => ({
  tokensPerSecond: 100,
  firstTokenMs: [50],
  gapsMs: [10],
  promptTokens: 1_000,
  cachedTokens: 0,
  cpuMsPerToken: 5,
  coresUsed: 2,
  peakBytes: 1e9,
  otherCores: 0,
  ...change,
});

/** Row of the table of ratios, by the names of its columns. */
function ratiosOf(byServer: Record<string, Partial<Measurement>[]>, figure?: 'first token'): Record<string, string> {
  const outcomes = Object.entries(byServer).map(([server, rounds]) => {
    return [server, { measurements: rounds.map(measurement), failure: null }] as const;
  });
  const workload = { name: 'work', ...(figure === undefined ? {} : { figure }) };
  const report = renderReport([{ workload, byServer: new Map(outcomes) }], ['exact', 'bf16']);
  const lines = report.split('\n').filter((line) => line.startsWith('|'));
  const head = lines.findIndex((line) => line.includes('÷') && !line.includes('CPU'));
  const [names, row] = [lines[head]!, lines[head + 2]!].map((line) => line.split('|').map((cell) => cell.trim()));
  return Object.fromEntries(names!.slice(2, -1).map((name, index) => [name, row![index + 2]!]));
}

test('each of our servers is compared with each other one, within rounds', () => {
  const rates = (...values: number[]): Partial<Measurement>[] => values.map((tokensPerSecond) => ({ tokensPerSecond }));
  expect(ratiosOf({ exact: rates(100, 50, 90), bf16: rates(200, 100, 100), vllm: rates(100, 100, 100) })).toEqual({
    'exact ÷ vllm': '0.90 (0.50–1.00)',
    'bf16 ÷ vllm': '1.00 (1.00–2.00)',
  });
});

test('a shorter time to the first token is a higher speed', () => {
  expect(ratiosOf({ exact: [{ firstTokenMs: [50] }], vllm: [{ firstTokenMs: [100] }] }, 'first token')).toEqual({
    'exact ÷ vllm': '2.00',
  });
});

test('a server on fewer cores, or with other prompts, has no ratio', () => {
  expect(ratiosOf({ exact: [{}], vllm: [{ coresUsed: 1 }] })).toEqual({ 'exact ÷ vllm': '– (1.0 of 2.0 cores)' });
  expect(ratiosOf({ exact: [{}], vllm: [{ promptTokens: 1_030 }] })).toEqual({
    'exact ÷ vllm': '– (1000, 1030 prompt tokens)',
  });
  expect(ratiosOf({ exact: [{}], vllm: [{ promptTokens: 1_015 }] })).toEqual({ 'exact ÷ vllm': '1.00' });
});

test('a server that should be idle counts as others, and is waited for', async () => {
  const spinning = spawn(process.execPath, ['-e', 'for (const end = Date.now() + 1500; Date.now() < end; );']);
  await once(spinning, 'spawn');
  const pids = [spinning.pid!];
  const before = { asOwn: sampleCpu(), asOther: sampleCpu([], pids) };
  await new Promise((resolve) => setTimeout(resolve, 500));
  const after = { asOwn: sampleCpu(), asOther: sampleCpu([], pids) };
  const [asOwn, asOther] = [otherCores(before.asOwn, after.asOwn)!, otherCores(before.asOther, after.asOther)!];
  expect(asOther).toBeGreaterThan(asOwn);
  expect(await waitUntilIdle(pids, 0)).toBeGreaterThan(0);
  await once(spinning, 'exit');
  expect(await waitUntilIdle(pids, 30_000)).toBe(0);
});

test.each([
  ['sglang', 'unknown peer "sglang"; the peers are exact, strict, fast, bf16, vllm, llama-server'],
  ['llama-server,file=q4_0', '"file=q4_0" in "llama-server,file=q4_0" is none of bf16, q8_0'],
  ['vllm,max-num-seqs=9', '"max-num-seqs=9" in "vllm,max-num-seqs=9" is not of the form --flag'],
  ['bf16,--threads=1', 'settings of bf16 are given with --settings'],
])('--peer %s is refused', (text, message) => {
  expect(() => parsePeer(text, [], () => {})).toThrow(message);
});

test('a step of other work than asked for is refused, and so are parts that exceed the whole', () => {
  const step: LoopStep = {
    total: 10,
    sampling: 5,
    training: 4,
    publishing: 0.5,
    waiting: waitingOf(10, [5, 4, 0.5]),
    sampledTokens: 4_096,
    promptTokens: 3_000,
    trainedTokens: 4_096,
    gradientSteps: 4,
    meanGap: null,
  };
  expect(requireWork(FULL, step).waiting).toBeCloseTo(0.5);
  expect(() => requireWork(FULL, { ...step, sampledTokens: 4_095 })).toThrow(
    '4096 tokens were to be sampled, got 4095',
  );
  expect(() => requireWork(FULL, { ...step, trainedTokens: 512 })).toThrow('4096 tokens were to be trained, got 512');
  expect(() => requireWork(FULL, { ...step, gradientSteps: 1 })).toThrow('4 gradient steps were to be made, got 1');
  expect(() => waitingOf(10, [8, 4])).toThrow('the parts of a step take 12.00 of 10.00 s');
});
