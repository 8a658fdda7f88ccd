const BAR_WIDTH = 24;
const CLEAR_LINE = '\r\u001b[2K';
/** Interval of progress lines without a terminal. */
const PLAIN_INTERVAL_MS = 15_000;

interface StepRow {
  readonly step: number;
  readonly reward: number;
  /** one record per gradient step of the job, upstream names */
  readonly metrics: readonly Record<string, number>[];
  /** sampled tokens */
  readonly numTokens: number;
  readonly seconds: { rollout: number; training: number };
  /** Warnings of the job. */
  readonly numWarnings: number;
  /** Groups that taught nothing, such as those of equal rewards. */
  readonly numDropped: number;
}

/** Output stream and clock of the table. */
interface Surroundings {
  readonly stream: { readonly isTTY?: boolean; write(text: string): unknown };
  /** milliseconds */
  readonly now: () => number;
}

/**
 * A table with one line per step. Below it is the progress of the current step: on a terminal a bar that
 * moves with every rollout, elsewhere a line every 15 seconds.
 */
export class StepTable {
  readonly #numSteps: number;
  readonly #stream: Surroundings['stream'];
  readonly #now: Surroundings['now'];
  readonly #startedMs: number;
  #phaseStartedMs: number;
  #printedMs: number;
  #numDone = 0;
  #numTokens = 0;
  /** Seconds of the ended phases. */
  readonly #ended = { rollout: [] as number[], training: [] as number[] };
  readonly #warned = new Set<string>();

  constructor(numSteps: number, surroundings: Partial<Surroundings> = {}) {
    this.#numSteps = numSteps;
    this.#stream = surroundings.stream ?? process.stdout;
    this.#now = surroundings.now ?? (() => performance.now());
    this.#startedMs = this.#phaseStartedMs = this.#printedMs = this.#now();
    this.#stream.write(' step   reward     loss       KL      gap   tok/s   rollout   train  dropped  warnings\n');
  }

  /** Starts the sampling phase of a step. */
  beginSampling(step: number, numRollouts: number): void {
    this.#phaseStartedMs = this.#now();
    this.#numDone = this.#numTokens = 0;
    this.#say(step, { rollout: 0, training: 0 }, `0 of ${numRollouts} rollouts`);
  }

  /** Counts one more rollout of the step. @param numTokens sampled for it */
  rolloutDone(step: number, numRollouts: number, numTokens: number): void {
    this.#numDone += 1;
    this.#numTokens += numTokens;
    const seconds = (this.#now() - this.#phaseStartedMs) / 1000;
    const rate = seconds === 0 ? '' : `, ${(this.#numTokens / seconds).toFixed(0)} tok/s`;
    const done = { rollout: this.#numDone / numRollouts, training: 0 };
    this.#say(step, done, `${this.#numDone} of ${numRollouts} rollouts${rate}`);
  }

  /** @param numGradientSteps of the step's job so far @param numTotal of them; null before the job starts */
  training(step: number, reward: number, numGradientSteps: number, numTotal: number | null = null): void {
    const words =
      numGradientSteps === 0 ? '' : `, ${numGradientSteps} gradient step${numGradientSteps === 1 ? '' : 's'}`;
    const training = numTotal === null || numTotal === 0 ? 0 : numGradientSteps / numTotal;
    this.#say(step, { rollout: 1, training }, `training on reward ${reward.toFixed(3)}${words}`);
  }

  /** Prints a warning of a job once per code. */
  warn({ code, message }: { readonly code: string; readonly message: string }): void {
    if (this.#warned.has(code)) return;
    this.#warned.add(code);
    this.#line(`warning: ${message}`);
  }

  /** @param fractions of the two phases of the step that are done */
  #say(step: number, fractions: { rollout: number; training: number }, text: string): void {
    const nowMs = this.#now();
    // The last checkpoint is sampled once more after the last job.
    const name = step < this.#numSteps ? `step ${step + 1} of ${this.#numSteps}` : 'last checkpoint';
    const left = this.#secondsLeft(step, fractions);
    const line = `${name}: ${text}${left === null ? '' : `, about ${timeText(left)} left`}`;
    if (!this.#stream.isTTY) {
      if (nowMs - this.#printedMs < PLAIN_INTERVAL_MS) return;
      this.#printedMs = nowMs;
      this.#stream.write(`${line}\n`);
      return;
    }
    const phasesDone = 2 * step + fractions.rollout + fractions.training;
    const elapsed = (nowMs - this.#startedMs) / 1000;
    const done = left === null ? phasesDone / (2 * this.#numSteps + 1) : elapsed / (elapsed + left);
    // Only the end of the last phase fills the bar.
    const filled = Math.min(BAR_WIDTH - (phasesDone < 2 * this.#numSteps + 1 ? 1 : 0), Math.round(done * BAR_WIDTH));
    this.#stream.write(`${CLEAR_LINE}[${'█'.repeat(filled)}${'░'.repeat(BAR_WIDTH - filled)}] ${line}`);
  }

  /** Remaining phases at the mean times of the ended ones; null before the first step has ended. */
  #secondsLeft(step: number, { rollout, training }: { rollout: number; training: number }): number | null {
    const { rollout: rollouts, training: trainings } = this.#ended;
    if (rollouts.length === 0) return null;
    const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const numRollouts = Math.max(0, this.#numSteps + 1 - step - rollout);
    const numTrainings = Math.max(0, this.#numSteps - step - training);
    return numRollouts * mean(rollouts) + numTrainings * mean(trainings);
  }

  row({ step, reward, metrics, numTokens, seconds, numWarnings, numDropped }: StepRow): void {
    this.#ended.rollout.push(seconds.rollout);
    this.#ended.training.push(seconds.training);
    const mean = (name: string) =>
      metrics.length === 0 ? null : metrics.reduce((sum, record) => sum + (record[name] ?? 0), 0) / metrics.length;
    const cells = [
      String(step).padStart(5),
      reward.toFixed(3).padStart(8),
      cell(mean('policy_loss'), 4, 9),
      cell(mean('kl_sampler'), 5, 9),
      // Sampler against trainer with equal weights: only before the job's first update; later steps include
      // the training.
      (metrics[0]?.['logprob_gap_mean']?.toExponential(0) ?? '–').padStart(9),
      (numTokens / seconds.rollout).toFixed(0).padStart(8),
      `${seconds.rollout.toFixed(1)} s`.padStart(10),
      `${seconds.training.toFixed(1)} s`.padStart(8),
      String(numDropped).padStart(9),
      String(numWarnings).padStart(10),
    ];
    this.#line(cells.join(''));
  }

  end(reward: number, seconds: number): void {
    this.#line(
      `final${reward.toFixed(3).padStart(9)}   after ${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`,
    );
  }

  #line(text: string): void {
    this.#stream.write(`${this.#stream.isTTY ? CLEAR_LINE : ''}${text}\n`);
  }
}

/** A job that trained nothing has no metrics: shown as a dash. */
function cell(value: number | null, digits: number, width: number): string {
  return (value === null ? '–' : value.toFixed(digits)).padStart(width);
}

function timeText(seconds: number): string {
  return seconds < 60 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
}
