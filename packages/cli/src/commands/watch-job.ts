import type { TrainingEventObject, TrainingJobObject, Trainyard } from '@trainyard/sdk';

import { CommandError } from '../terminal/command-error.ts';
import { printJsonLine } from '../terminal/print-json.ts';
import { oneLine } from '../terminal/printable.ts';
import { durationOf, etaSeconds } from '../terminal/times.ts';

type JobWarning = TrainingJobObject['warnings'][number];

/** Values shown in the line of a gradient step, with their labels. */
const SHOWN: readonly (readonly [label: string, name: string])[] = [
  ['loss', 'loss'],
  ['loss', 'policy_loss'],
  ['reward', 'reward'],
  ['fresh kl', 'fresh/kl_sampler'],
  ['updated kl', 'updated/kl_sampler'],
  ['entropy', 'entropy'],
  ['fresh gap', 'fresh/logprob_gap_mean'],
  ['updated gap', 'updated/logprob_gap_mean'],
  ['grad', 'grad_norm'],
];

/**
 * Prints the events of a job as they arrive: a line per gradient step with the estimated remaining time, and
 * warnings in plain words.
 *
 * @param options `isJson`: prints each event as a line of JSON instead
 * @returns the job after success
 * @throws {CommandError} if it failed or was cancelled
 */
export async function watchJob(
  client: Trainyard,
  job: TrainingJobObject,
  options: { isJson: boolean; signal: AbortSignal },
): Promise<TrainingJobObject> {
  const { isJson, signal } = options;
  const printLine = (line: string) => void (isJson || process.stdout.write(`${line}\n`));
  printLine(await startedLine(client, job));
  // Some are known before the job starts; their events follow again.
  for (const warning of job.warnings) printLine(warningLines(warning));
  const warned = new Set(job.warnings.map(({ code }) => code));
  let numAll: number | null = null;
  let numDone = 0;
  let sinceMs: number | null = null;
  let reached: number | null = null;
  for await (const event of client.trainingJobs.watch(job.id, { signal })) {
    if (isJson) printJsonLine(event);
    switch (event.type) {
      case 'training_started':
        numAll = numberIn(event, 'num_sequences');
        break;
      case 'gradient_step': {
        numDone += 1;
        sinceMs ??= ((await client.trainingJobs.retrieve(job.id, { signal })).started_at ?? Infinity) * 1000;
        printLine(stepLine(event, numDone, numAll, etaSeconds(numDone, numAll, sinceMs, client.now())));
        break;
      }
      case 'held_out': {
        const [loss, after] = [numberIn(event, 'loss'), numberIn(event, 'gradient_step')];
        printLine(
          `held-out loss ${loss?.toPrecision(4) ?? '?'} after ${after ?? '?'} gradient ${after === 1 ? 'step' : 'steps'}`,
        );
        break;
      }
      case 'warning':
        if (!warned.has(textIn(event, 'code')))
          printLine(warningLines({ message: textIn(event, 'message'), suggestion: textIn(event, 'suggestion') }));
        break;
      case 'training_ended':
        reached = numberIn(event, 'step');
        break;
      default:
    }
  }
  const ended = await client.trainingJobs.retrieve(job.id, { signal });
  if (ended.status !== 'succeeded')
    throw new CommandError(
      `the job ${job.id} ${ended.status === 'cancelled' ? 'was cancelled' : 'failed'}: ${oneLine(ended.error_message ?? 'unknown reason')}`,
    );
  printLine(endedLine(ended, reached));
  // Steps scroll by, so the warning about rollouts without effect must be the last output.
  const nothing = ended.warnings.find(({ code }) => code === 'nothing_trained');
  if (nothing !== undefined) printLine(`warning: ${oneLine(nothing.message)}\n         ${oneLine(nothing.suggestion)}`);
  return ended;
}

async function startedLine(
  client: Trainyard,
  { id, kind, status, is_paused: isPaused, waiting_for: waitingFor }: TrainingJobObject,
): Promise<string> {
  if (isPaused) return `job ${id} (${kind}) is paused; continue it with "trainyard jobs resume ${id}"`;
  if (status !== 'queued') return `job ${id} (${kind}), ${status}`;
  if (waitingFor?.code === 'base_model') return `job ${id} (${kind}) is waiting: ${waitingFor.message}`;
  const place = (await client.trainingJobs.queue()).data.find((queued) => queued.id === id);
  return `job ${id} (${kind}), queued${place === undefined || place.num_ahead === 0 ? '' : `, ${place.num_ahead} ahead of it`}`;
}

function warningLines({ message, suggestion }: Pick<JobWarning, 'message' | 'suggestion'>): string {
  return `warning: ${oneLine(message)}\n         ${oneLine(suggestion)}`;
}

function stepLine(event: TrainingEventObject, numDone: number, numAll: number | null, left: number | null): string {
  const count = numAll === null ? String(numDone) : `${String(numDone).padStart(String(numAll).length)}/${numAll}`;
  const numbers = SHOWN.flatMap(([label, name]) => {
    const value = numberIn(event, name);
    return value === null ? [] : [`${label} ${value.toPrecision(4)}`];
  });
  return [count, ...numbers, ...(left === null || numDone === numAll ? [] : [`${durationOf(left)} left`])].join('  ');
}

/** @param reached resulting step of the model; null if the job's events do not contain it */
function endedLine(
  { started_at: begun, finished_at: ended, group_outcomes: outcomes }: TrainingJobObject,
  reached: number | null,
): string {
  const step = reached === null ? 'done' : `done: the model is at step ${reached}`;
  const time = begun === null || ended === null ? '' : ` after ${durationOf(ended - begun)}`;
  const dropped = new Map<string, number>();
  for (const outcome of outcomes ?? [])
    if (outcome !== 'trained') dropped.set(outcome, (dropped.get(outcome) ?? 0) + 1);
  const reasons = [...dropped].map(([reason, count]) => `${count} ${reason}`);
  const trained =
    outcomes === null || outcomes.length === 0
      ? ''
      : `; ${outcomes.length - sum(dropped)} of ${outcomes.length} groups trained`;
  return `${step}${time}${trained}${reasons.length === 0 ? '' : ` (${reasons.join(', ')})`}`;
}

const sum = (counts: ReadonlyMap<string, number>) => [...counts.values()].reduce((total, count) => total + count, 0);

function numberIn({ data }: TrainingEventObject, name: string): number | null {
  const value = data[name];
  return typeof value === 'number' ? value : null;
}

function textIn({ data }: TrainingEventObject, name: string): string {
  const value = data[name];
  return oneLine(typeof value === 'string' ? value : '');
}
