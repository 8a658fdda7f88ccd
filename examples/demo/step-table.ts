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

  constructor(numSteps: number, surroundings: Partial<Surroundings> = {}) {
    this.#numSteps = numSteps;
    this.#stream = surroundings.stream ?? process.stdout;
    this.#now = surroundings.now ?? (() => performance.now());
    this.#startedMs = this.#phaseStartedMs = this.#printedMs = this.#now();
    this.#stream.write(' step   reward     loss       KL      gap   tok/s   rollout   train\n');
  }

  /** Starts the sampling phase of a step. */
  beginSampling(step: number, numRollouts: number): void {
    this.#phaseStartedMs = this.#now();
    this.#numDone = this.#numTokens = 0;
    this.#say(step, 0, `0 of ${numRollouts} rollouts`);
  }

  /** Counts one more rollout of the step. @param numTokens sampled for it */
  rolloutDone(step: number, numRollouts: number, numTokens: number): void {
    this.#numDone += 1;
    this.#numTokens += numTokens;
    const seconds = (this.#now() - this.#phaseStartedMs) / 1000;
    const rate = seconds === 0 ? '' : `, ${(this.#numTokens / seconds).toFixed(0)} tok/s`;
    // Sampling and training take about the same time.
    this.#say(step, this.#numDone / numRollouts / 2, `${this.#numDone} of ${numRollouts} rollouts${rate}`);
  }

  /** @param numGradientSteps of the step's job so far */
  training(step: number, reward: number, numGradientSteps: number): void {
    const done =
      numGradientSteps === 0 ? '' : `, ${numGradientSteps} gradient step${numGradientSteps === 1 ? '' : 's'}`;
    this.#say(step, 0.5, `training on reward ${reward.toFixed(3)}${done}`);
  }

  #say(step: number, fraction: number, text: string): void {
    const nowMs = this.#now();
    const done = Math.min(1, (step + fraction) / this.#numSteps);
    const line = `step ${Math.min(step + 1, this.#numSteps)} of ${this.#numSteps}: ${text}${this.#timeLeft(step, done)}`;
    if (!this.#stream.isTTY) {
      if (nowMs - this.#printedMs < PLAIN_INTERVAL_MS) return;
      this.#printedMs = nowMs;
      this.#stream.write(`${line}\n`);
      return;
    }
    const filled = Math.round(done * BAR_WIDTH);
    this.#stream.write(`${CLEAR_LINE}[${'█'.repeat(filled)}${'░'.repeat(BAR_WIDTH - filled)}] ${line}`);
  }

  /** Remaining time at the pace so far; empty before the first step has ended. */
  #timeLeft(step: number, done: number): string {
    if (step === 0) return '';
    const secondsLeft = Math.round((((this.#now() - this.#startedMs) / 1000) * (1 - done)) / done);
    return `, about ${secondsLeft < 60 ? `${secondsLeft} s` : `${Math.round(secondsLeft / 60)} min`} left`;
  }

  row({ step, reward, metrics, numTokens, seconds }: StepRow): void {
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
