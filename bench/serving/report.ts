import { markdownTable } from '../markdown-table.ts';
import { median, percentile } from '../percentile.ts';
import { spread, threeDigits } from '../three-digits.ts';
import type { Measurement } from './measure.ts';
import type { Workload } from './workloads.ts';

/** Outcome of a workload on a server: one measurement per round, and the reason if one failed. */
export interface Outcome {
  readonly measurements: readonly Measurement[];
  /** Null = none failed. */
  readonly failure: string | null;
}

/** Outcomes of one workload, by server name. */
export interface WorkloadOutcomes {
  readonly workload: Pick<Workload, 'name' | 'figure'>;
  readonly byServer: ReadonlyMap<string, Outcome>;
}

/**
 * Three tables in Markdown: figures, ratios and costs.
 * @param ours names of our servers: ratios are theirs to each other server; without others, of the first one to the rest
 */
export function renderReport(outcomes: readonly WorkloadOutcomes[], ours: readonly string[]): string {
  const servers = [...new Set(outcomes.flatMap(({ byServer }) => [...byServer.keys()]))];
  const pairs = pairsOf(servers, ours);
  const figures = outcomes.map(({ workload, byServer }) => [
    workload.figure === undefined ? workload.name : `${workload.name}, ms`,
    ...servers.map((server) => figureOf(workload, byServer.get(server))),
    threeDigits(Math.max(0, ...[...byServer.values()].flatMap(({ measurements }) => measurements.map(strangers)))),
  ]);
  const ratios = outcomes.map(({ workload, byServer }) => [
    workload.name,
    ...pairs.map(([one, other]) => ratio(workload, byServer.get(one), byServer.get(other))),
  ]);
  const costs = outcomes.flatMap(({ workload, byServer }) =>
    [...byServer].flatMap(([server, { measurements }]) =>
      measurements.length === 0 ? [] : [[workload.name, server, ...costsOf(measurements)]],
    ),
  );
  return [
    'Completion tokens per second, or the time to the first token in ms: median (smallest–largest round).',
    '',
    markdownTable(['workload', ...servers, 'others used, cores'], figures),
    ...(pairs.length === 0
      ? []
      : [
          '',
          'Ratios of speeds within a round, above 1 if the first is faster: median (smallest–largest). None for a server that used fewer cores or read other prompts.',
          '',
          markdownTable(['workload', ...pairs.map(([one, other]) => `${one} ÷ ${other}`)], ratios),
        ]),
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

function pairsOf(servers: readonly string[], ours: readonly string[]): [string, string][] {
  const others = servers.filter((server) => !ours.includes(server));
  const [first, ...rest] = servers;
  if (others.length === 0) return first === undefined ? [] : rest.map((other) => [first, other]);
  return servers
    .filter((server) => ours.includes(server))
    .flatMap((one) => others.map((other) => [one, other] as [string, string]));
}

function figureOf({ figure }: Pick<Workload, 'figure'>, outcome: Outcome | undefined): string {
  if (outcome === undefined) return '–';
  if (outcome.failure !== null) return `failed: ${outcome.failure.slice(0, 80).replaceAll('|', '\\|')}`;
  const read = figure === undefined ? tokensPerSecond : firstToken;
  return overRounds(outcome.measurements.map(read));
}

/** A server that uses a smaller share of the other's cores was not started for this machine. */
const LEAST_SHARE_OF_CORES = 0.75;
/** Prompts of later turns contain the servers' own answers, whose tokens may differ when they are read again. */
const MOST_OTHER_PROMPT_TOKENS = 0.02;

/** Compared within rounds: a slow minute affects both. */
function ratio({ figure }: Pick<Workload, 'figure'>, first: Outcome | undefined, second: Outcome | undefined): string {
  const pairs = (first?.measurements ?? []).flatMap((one, round) => {
    const other = second?.measurements[round];
    return other === undefined ? [] : [[one, other] as const];
  });
  if (pairs.length === 0 || second?.failure != null || first?.failure != null) return '–';
  const [ours, theirs] = [0, 1].map((side) => median(pairs.map((pair) => pair[side]!.coresUsed ?? Number.NaN)));
  if (theirs! < LEAST_SHARE_OF_CORES * ours!) return `– (${theirs!.toFixed(1)} of ${ours!.toFixed(1)} cores)`;
  const unequal = pairs.find(
    ([one, other]) => Math.abs(one.promptTokens - other.promptTokens) > MOST_OTHER_PROMPT_TOKENS * one.promptTokens,
  );
  if (unequal !== undefined) return `– (${unequal[0].promptTokens}, ${unequal[1].promptTokens} prompt tokens)`;
  return overRounds(
    pairs.map(([one, other]) =>
      figure === undefined ? one.tokensPerSecond / other.tokensPerSecond : firstToken(other) / firstToken(one),
    ),
  );
}

function costsOf(measurements: readonly Measurement[]): string[] {
  const of = (read: (measurement: Measurement) => number | null): string => {
    const values = measurements.map(read);
    return values.includes(null) || values.includes(Number.NaN) ? '–' : threeDigits(median(values.map(Number)));
  };
  return [
    of(firstToken),
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
const tokensPerSecond = (measurement: Measurement): number => measurement.tokensPerSecond;
const firstToken = ({ firstTokenMs }: Measurement): number => percentile(firstTokenMs, 0.5);

/** The value of one round, or the spread of several. */
function overRounds(values: readonly number[]): string {
  if (values.length === 0) return '–';
  return values.length === 1 ? threeDigits(values[0]!) : spread(values);
}
