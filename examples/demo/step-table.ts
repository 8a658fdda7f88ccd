const BAR_WIDTH = 24;
const CLEAR_LINE = '\r\u001b[2K';

interface StepRow {
  readonly step: number;
  readonly reward: number;
  /** one record per gradient step of the job, upstream names */
  readonly metrics: readonly Record<string, number>[];
  /** sampled tokens */
  readonly numTokens: number;
  readonly seconds: { rollout: number; training: number };
}

/** A table that grows by a line a step, with a progress bar under it on a terminal. */
export class StepTable {
  readonly #numSteps: number;
  readonly #isTerminal = process.stdout.isTTY;

  constructor(numSteps: number) {
    this.#numSteps = numSteps;
    console.log(' step   reward     loss       KL      gap   tok/s   rollout   train');
  }

  progress(step: number, phase: string, reward?: number): void {
    if (!this.#isTerminal) return;
    const filled = Math.round((step / this.#numSteps) * BAR_WIDTH);
    const bar = '█'.repeat(filled) + '░'.repeat(BAR_WIDTH - filled);
    const note = reward === undefined ? '' : `, reward ${reward.toFixed(3)}`;
    process.stdout.write(`${CLEAR_LINE}[${bar}] step ${step + 1} of ${this.#numSteps}: ${phase}${note}`);
  }

  row({ step, reward, metrics, numTokens, seconds }: StepRow): void {
    if (this.#isTerminal) process.stdout.write(CLEAR_LINE);
    const mean = (name: string) =>
      metrics.length === 0 ? null : metrics.reduce((sum, record) => sum + (record[name] ?? 0), 0) / metrics.length;
    const cells = [
      String(step).padStart(5),
      reward.toFixed(3).padStart(8),
      cell(mean('policy_loss'), 4, 9),
      cell(mean('kl_sampler'), 5, 9),
      // Sampler against trainer on the very same weights: only before the job's first update; later steps measure what was learnt meanwhile.
      cell(metrics[0]?.['logprob_gap_mean'] ?? null, 4, 9),
      (numTokens / seconds.rollout).toFixed(0).padStart(8),
      `${seconds.rollout.toFixed(1)} s`.padStart(10),
      `${seconds.training.toFixed(1)} s`.padStart(8),
    ];
    console.log(cells.join(''));
  }

  end(reward: number, seconds: number): void {
    if (this.#isTerminal) process.stdout.write(CLEAR_LINE);
    console.log(
      `final${reward.toFixed(3).padStart(9)}   after ${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`,
    );
  }
}

/** A job that trained nothing has no metrics: shown as a dash. */
function cell(value: number | null, digits: number, width: number): string {
  return (value === null ? '–' : value.toFixed(digits)).padStart(width);
}
