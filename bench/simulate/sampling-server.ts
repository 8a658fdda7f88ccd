import { AdapterCache } from './adapter-cache.ts';
import type { EventQueue } from './event-queue.ts';
import type { MeasuredTimes } from './measured-times.ts';
import { RateClock } from './rate-clock.ts';

/** Sequences with one prompt, sampled together. */
export interface Group {
  /** Null: the base model. */
  readonly adapter: string | null;
  readonly numSequences: number;
  readonly promptTokens: number;
  readonly replyTokens: number;
  /** Called with its wait for its adapter and for room, seconds. */
  readonly onDone: (waitSeconds: number) => void;
}

interface Waiting extends Group {
  readonly since: number;
}

interface Running extends Group {
  readonly waited: number;
  /** Server steps after which its replies are complete. */
  readonly endsAt: number;
}

export interface SamplingServerOptions {
  readonly events: EventQueue;
  readonly times: MeasuredTimes;
  /** Maximum sequences in a step. */
  readonly maxSequences: number;
  readonly maxAdapters: number;
}

/** One server: each step gives a token to every sequence, and takes longer with more sequences. */
export class SamplingServer {
  readonly cache: AdapterCache;
  readonly #options: SamplingServerOptions;
  readonly #steps = new RateClock();
  readonly #waiting: Waiting[] = [];
  #running: Running[] = [];
  #numRunning = 0;
  #promptsUntil = 0;
  #speed = 1;
  /** Only the newest plan counts. */
  #plan = 0;
  #busySince: number | null = null;
  #busySeconds = 0;
  /** Sequences in the server, waiting or not. */
  numSequences = 0;
  onBusy: (isBusy: boolean) => void = () => {};

  constructor(options: SamplingServerOptions) {
    this.#options = options;
    this.cache = new AdapterCache(options.maxAdapters);
  }

  get busySeconds(): number {
    const { now } = this.#options.events;
    return this.#busySeconds + (this.#busySince === null ? 0 : now - this.#busySince);
  }

  /** @param speed relative to an idle machine: lower while something else computes */
  setSpeed(speed: number): void {
    this.#speed = speed;
    this.#refresh();
  }

  submit(group: Group): void {
    const { events, times } = this.#options;
    const since = events.now;
    this.numSequences += group.numSequences;
    const readyAt = group.adapter === null ? since : this.cache.use(group.adapter, since, times.adapterSeconds);
    events.plan(readyAt, () => {
      this.#waiting.push({ ...group, since });
      this.#admit();
    });
  }

  #admit(): void {
    const { events, times, maxSequences } = this.#options;
    const { now } = events;
    let hasCapacity = true;
    while (hasCapacity && this.#waiting.length > 0) {
      const [next] = this.#waiting as [Waiting];
      hasCapacity = this.#numRunning === 0 || this.#numRunning + next.numSequences <= maxSequences;
      if (!hasCapacity) break;
      this.#waiting.shift();
      this.#numRunning += next.numSequences;
      this.#promptsUntil =
        Math.max(this.#promptsUntil, now) + (next.promptTokens * times.promptTokenSeconds) / this.#speed;
      const endsAt = this.#steps.valueAt(now) + next.replyTokens;
      this.#running.push({ ...next, waited: now - next.since, endsAt });
    }
    this.#refresh();
  }

  /** Updates the current speed, and plans the next event. */
  #refresh(): void {
    const { events, times } = this.#options;
    const { now } = events;
    this.#noteBusy(this.#running.length > 0, now);
    const isPrompting = this.#promptsUntil > now;
    const step = times.stepSeconds + times.sequenceSeconds * this.#numRunning;
    this.#steps.setRate(now, isPrompting || this.#running.length === 0 ? 0 : this.#speed / step);
    const plan = ++this.#plan;
    const least = this.#running.reduce((smallest, { endsAt }) => Math.min(smallest, endsAt), Infinity);
    if (isPrompting) events.plan(this.#promptsUntil, () => plan === this.#plan && this.#refresh());
    else if (least < Infinity)
      events.plan(this.#steps.timeOf(least, now), () => plan === this.#plan && this.#finish(least));
  }

  #finish(steps: number): void {
    this.#steps.reach(this.#options.events.now, steps);
    const ended = this.#running.filter(({ endsAt }) => endsAt <= steps);
    this.#running = this.#running.filter(({ endsAt }) => endsAt > steps);
    for (const { numSequences } of ended) {
      this.#numRunning -= numSequences;
      this.numSequences -= numSequences;
    }
    this.#admit();
    for (const { onDone, waited } of ended) onDone(waited);
  }

  #noteBusy(isBusy: boolean, now: number): void {
    if (isBusy === (this.#busySince !== null)) return;
    if (this.#busySince !== null) this.#busySeconds += now - this.#busySince;
    this.#busySince = isBusy ? now : null;
    this.onBusy(isBusy);
  }
}
