import { markdownTable } from '../markdown-table.ts';
import { median, percentile } from '../percentile.ts';
import type { Measurement } from './measure.ts';

/** Outcome of a workload on a server: one measurement per round, and the reason if one failed. */
export interface Outcome {
  readonly measurements: readonly Measurement[];
  /** Null = none failed. */
  readonly failure: string | null;
}

/** Outcomes of one workload, by server name; the others are compared with the first server. */
export type WorkloadOutcomes = ReadonlyMap<string, Outcome>;

/** @returns two tables in Markdown: rates with their ratios, and costs */
export function renderReport(byWorkload: ReadonlyMap<string, WorkloadOutcomes>): string {
  const servers = [...new Set([...byWorkload.values()].flatMap((outcomes) => [...outcomes.keys()]))];
  const [first = '', ...others] = servers;
  const rates = [...byWorkload].map(([workload, outcomes]) => [
    workload,
    ...servers.map((server) => rate(outcomes.get(server))),
    ...others.map((server) => ratio(outcomes.get(first), outcomes.get(server))),
    figure(Math.max(0, ...[...outcomes.values()].flatMap(({ measurements }) => measurements.map(strangers)))),
  ]);
  const costs = [...byWorkload].flatMap(([workload, outcomes]) =>
    [...outcomes].flatMap(([server, { measurements }]) =>
      measurements.length === 0 ? [] : [[workload, server, ...costsOf(measurements)]],
    ),
  );
  return [
    'Completion tokens per second, medians; ratios are medians over the rounds, above 1 if the first server is faster. A server that used fewer cores has no ratio: start it with all of them.',
    '',
    markdownTable(
      ['workload', ...servers, ...others.map((server) => `${first} ÷ ${server}`), 'others used, cores'],
      rates,
    ),
    '',
    'Medians of the rounds: time to the first token and between tokens in ms, prompt tokens, processor time in ms a completion token, cores used, memory in MB (PSS).',
    '',
    markdownTable(
      [
        'workload',
        'server',
        'first token p50',
        'p95',
        'gap p50',
        'p95',
        'prompt tokens computed',
        'from cache',
        'CPU ÷ token',
        'cores',
        'memory',
      ],
      costs,
    ),
  ].join('\n');
}

function rate(outcome: Outcome | undefined): string {
  if (outcome === undefined) return '–';
  if (outcome.failure !== null) return `failed: ${outcome.failure.slice(0, 80).replaceAll('|', '\\|')}`;
  return figure(median(outcome.measurements.map(({ tokensPerSecond }) => tokensPerSecond)));
}

/** A server that uses a smaller share of the first one's cores was not started for this machine. */
const LEAST_SHARE_OF_CORES = 0.75;

/** Compared within rounds: a slow minute affects both. None for a server on fewer cores. */
function ratio(first: Outcome | undefined, second: Outcome | undefined): string {
  const [ours, theirs] = [first, second].map((outcome) =>
    median((outcome?.measurements ?? []).map(({ coresUsed }) => coresUsed ?? Number.NaN)),
  ) as [number, number];
  if (theirs < LEAST_SHARE_OF_CORES * ours) return `– (${theirs.toFixed(1)} of ${ours.toFixed(1)} cores)`;
  const pairs = (first?.measurements ?? []).flatMap((one, round) => {
    const other = second?.measurements[round];
    return other === undefined ? [] : [one.tokensPerSecond / other.tokensPerSecond];
  });
  return pairs.length === 0 ? '–' : figure(median(pairs));
}

function costsOf(measurements: readonly Measurement[]): string[] {
  const of = (read: (measurement: Measurement) => number | null): string => {
    const values = measurements.map(read);
    return values.includes(null) || values.includes(Number.NaN) ? '–' : figure(median(values.map(Number)));
  };
  return [
    of(({ firstTokenMs }) => percentile(firstTokenMs, 0.5)),
    of(({ firstTokenMs }) => percentile(firstTokenMs, 0.95)),
    of(({ gapsMs }) => percentile(gapsMs, 0.5)),
    of(({ gapsMs }) => percentile(gapsMs, 0.95)),
    of(({ promptTokens, cachedTokens }) => (cachedTokens === null ? null : promptTokens - cachedTokens)),
    of(({ cachedTokens }) => cachedTokens),
    of(({ cpuMsPerToken }) => cpuMsPerToken),
    of(({ coresUsed }) => coresUsed),
    of(({ peakBytes }) => (peakBytes === null ? null : peakBytes / 1e6)),
  ];
}

const strangers = ({ otherCores }: Measurement): number => otherCores ?? 0;

function figure(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
