import type { EventQueue } from './event-queue.ts';
import { RateClock } from './rate-clock.ts';

interface Job {
  readonly seconds: number;
  readonly since: number;
  readonly onDone: (waitSeconds: number) => void;
}

/** Taken jobs after which the list of waiting ones is compacted. */
const FORGET_AFTER = 1000;

/** Trainers that take jobs in order of arrival, each one at a time. */
export class TrainerPool {
  readonly #events: EventQueue;
  readonly #waiting: Job[] = [];
  /** Work of running jobs, in seconds of a trainer with its own machine. */
  readonly #work = new RateClock();
  #running: { readonly job: Job; readonly endsAt: number; readonly waited: number }[] = [];
  readonly #numTrainers: number;
  #head = 0;
  #speed = 1;
  #plan = 0;
  #busySeconds = 0;
  #since = 0;
  onBusy: (isBusy: boolean) => void = () => {};

  constructor(events: EventQueue, numTrainers: number) {
    this.#events = events;
    this.#numTrainers = numTrainers;
    this.#work.setRate(0, 1);
  }

  /** Seconds of all trainers together. */
  get busySeconds(): number {
    return this.#busySeconds + (this.#events.now - this.#since) * this.#running.length;
  }

  setSpeed(speed: number): void {
    this.#speed = speed;
    this.#refresh();
  }

  /** @param seconds of the job without other load @param onDone is called with its wait, seconds */
  submit(seconds: number, onDone: (waitSeconds: number) => void): void {
    this.#waiting.push({ seconds, since: this.#events.now, onDone });
    this.#begin();
  }

  #begin(): void {
    const { now } = this.#events;
    this.#note();
    while (this.#running.length < this.#numTrainers && this.#head < this.#waiting.length) {
      const job = this.#waiting[this.#head]!;
      this.#head++;
      this.#running.push({ job, waited: now - job.since, endsAt: this.#work.valueAt(now) + job.seconds });
    }
    if (this.#head > FORGET_AFTER) {
      this.#waiting.splice(0, this.#head);
      this.#head = 0;
    }
    this.#refresh();
  }

  #refresh(): void {
    const { now } = this.#events;
    this.onBusy(this.#running.length > 0);
    this.#work.setRate(now, this.#speed);
    const plan = ++this.#plan;
    const least = this.#running.reduce((smallest, { endsAt }) => Math.min(smallest, endsAt), Infinity);
    if (least < Infinity)
      this.#events.plan(this.#work.timeOf(least, now), () => plan === this.#plan && this.#finish(least));
  }

  #finish(seconds: number): void {
    this.#note();
    this.#work.reach(this.#events.now, seconds);
    const ended = this.#running.filter(({ endsAt }) => endsAt <= seconds);
    this.#running = this.#running.filter(({ endsAt }) => endsAt > seconds);
    this.#begin();
    for (const { job, waited } of ended) job.onDone(waited);
  }

  #note(): void {
    const { now } = this.#events;
    this.#busySeconds += (now - this.#since) * this.#running.length;
    this.#since = now;
  }
}
