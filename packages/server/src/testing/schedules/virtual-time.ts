import { AsyncLocalStorage } from 'node:async_hooks';
import { createRequire, syncBuiltinESMExports } from 'node:module';

import { startPackingReports, stopPackingReports } from './packing.ts';
import { SimulatedProcess } from './simulated-process.ts';

type Callback = (...values: unknown[]) => void;

/** Original clock and timers, of the machine. */
const real = {
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  setInterval: globalThis.setInterval,
  clearInterval: globalThis.clearInterval,
  setImmediate: globalThis.setImmediate,
  now: performance.now.bind(performance),
};
const timersPromises = createRequire(import.meta.url)('node:timers/promises') as { setTimeout: unknown };
const realDelay = timersPromises.setTimeout;

/** Start of virtual time, so that a repeated schedule has the same dates. */
const EPOCH_MS = Date.UTC(2026, 0, 1);
/** Speed of virtual time during computing and waiting, relative to real time. */
const RATE = 4;
/**
 * Maximum counted time between two readings of the clock: longer gaps mean that others had the cores, and
 * would expire leases on a busy machine.
 */
const MAX_GAP_MS = 4;
/**
 * Operations longer than this slow down virtual time: a server without cores is not a slow server of a
 * schedule.
 */
const MAX_UNDER_WAY_MS = 100;
/** Slow-down factor; not infinite, or code that waits for an unregistered timer would hang. */
const SLOWER = 16;
/** Idle turns of the event loop after which nothing is in progress. */
const QUIET_TURNS = 3;

/**
 * Virtual time for all code of this thread: timers, `performance.now` and `Date.now`. It follows the real
 * clock at a higher speed, and jumps to the next timer when nothing is in progress. It slows down while an
 * operation takes long, so that a busy machine causes no timeouts. Timers of a killed process never fire,
 * those of a stopped one fire when it continues, and its `Date.now` has its own error.
 */
export class VirtualTime {
  #timers: VirtualTimer[] = [];
  #passed = 0;
  /** Time by which clocks were set ahead, ms. */
  #steppedMs = 0;
  #seenAt = real.now();
  #quietTurns = 0;
  /** Start of each, the oldest first. */
  readonly #underWay = new Set<{ readonly since: number }>();
  /** Time slows down after this point until an operation ends. */
  #limit = Infinity;
  /** Set while files are read or written. */
  #files: (() => void) | null = null;
  #isTicking = false;
  /** Set while the next tick waits for the machine. */
  #waits: NodeJS.Timeout | null = null;
  #isRunning = false;
  #nextId = 1;

  /** Milliseconds since the start of the schedule. */
  get now(): number {
    const at = real.now();
    const gap = Math.min(at - this.#seenAt, MAX_GAP_MS) * RATE;
    const free = Math.min(gap, Math.max(0, this.#limit - this.#passed));
    this.#passed += free + (gap - free) / SLOWER;
    this.#seenAt = at;
    return this.#passed;
  }

  /** Milliseconds since the epoch, without any process's error. */
  get date(): number {
    return EPOCH_MS + this.#steppedMs + this.now;
  }

  begin(): void {
    this.#seenAt = real.now();
    this.#isRunning = true;
    startPackingReports(() => this.underWay());
    const later = (callback: Callback, ms = 0, ...values: unknown[]) => this.#later(callback, ms, values, null);
    const again = (callback: Callback, ms = 0, ...values: unknown[]) => this.#later(callback, ms, values, ms);
    const clear = (timer: unknown) => this.#clear(timer);
    const delay = (ms = 1, value?: unknown, { signal }: { signal?: AbortSignal } = {}) =>
      this.#delay(ms, value, signal);
    Object.assign(globalThis, { setTimeout: later, setInterval: again, clearTimeout: clear, clearInterval: clear });
    performance.now = () => this.now;
    Date.now = () => Math.round(this.date + (SimulatedProcess.current?.skewMs ?? 0));
    timersPromises.setTimeout = delay;
    syncBuiltinESMExports();
  }

  end(): void {
    this.#isRunning = false;
    this.#isTicking = false;
    this.#timers = [];
    stopPackingReports();
    const { setTimeout, clearTimeout, setInterval, clearInterval } = real;
    Object.assign(globalThis, { setTimeout, clearTimeout, setInterval, clearInterval });
    performance.now = real.now;
    Date.now = () => Math.round(performance.timeOrigin + real.now());
    timersPromises.setTimeout = realDelay;
    syncBuiltinESMExports();
  }

  /** Until the returned function is called, time follows only the clock, and soon slows down. */
  underWay(): () => void {
    const begun = { since: this.now };
    this.#underWay.add(begun);
    this.#limit = Math.min(this.#limit, begun.since + MAX_UNDER_WAY_MS);
    return () => {
      // Counts its duration before it ends.
      void this.now;
      if (!this.#underWay.delete(begun)) return;
      const [oldest] = this.#underWay;
      this.#limit = oldest === undefined ? Infinity : oldest.since + MAX_UNDER_WAY_MS;
      this.#tickSoon();
    };
  }

  async sleep(ms: number): Promise<void> {
    await this.#delay(ms, undefined, undefined);
  }

  /** Sets all clocks ahead or back; no time passes. */
  step(ms: number): void {
    this.#steppedMs += ms;
  }

  /** Lets time pass without events. */
  skip(ms: number): void {
    this.#passed += ms;
    this.#tickSoon();
  }

  #later(callback: Callback, ms: number, values: unknown[], every: number | null): VirtualTimer {
    const run = () => callback(...values);
    const timer = new VirtualTimer(this.#nextId++, run, every, (asked, after) => this.#add(asked, after));
    this.#add(timer, ms);
    return timer;
  }

  #add(timer: VirtualTimer, ms: number): void {
    const at = this.#timers.indexOf(timer);
    if (at !== -1) this.#timers.splice(at, 1);
    timer.ms = ms;
    // As in Node: values outside this range become 1.
    timer.due = this.now + (ms >= 1 && ms <= 2 ** 31 - 1 ? ms : 1);
    let place = this.#timers.length;
    while (place > 0 && this.#timers[place - 1]!.due > timer.due) place--;
    this.#timers.splice(place, 0, timer);
    this.#tickSoon();
  }

  #clear(timer: unknown): void {
    const at = this.#timers.findIndex((kept) => kept === timer || kept.id === timer);
    if (at !== -1) this.#timers.splice(at, 1);
    else if (!(timer instanceof VirtualTimer)) real.clearTimeout(timer as NodeJS.Timeout);
  }

  async #delay(ms: number, value: unknown, signal: AbortSignal | undefined): Promise<unknown> {
    signal?.throwIfAborted();
    const over = Promise.withResolvers<unknown>();
    const timer = this.#later(() => over.resolve(value), ms, [], null);
    const abort = () => {
      this.#clear(timer);
      over.reject(signal?.reason);
    };
    signal?.addEventListener('abort', abort, { once: true });
    try {
      return await over.promise;
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }

  #tickSoon(): void {
    this.#quietTurns = 0;
    if (!this.#isRunning) return;
    if (this.#waits !== null && this.#underWay.size === 0) {
      real.clearTimeout(this.#waits);
      this.#waits = null;
      real.setImmediate(() => this.#tick());
    }
    if (this.#isTicking) return;
    this.#isTicking = true;
    real.setImmediate(() => this.#tick());
  }

  /** Repeats for as long as virtual time runs. */
  #tick(): void {
    this.#waits = null;
    if (!this.#isRunning) return;
    this.#fireDue();
    // As late as possible, because it is the slowest part.
    if (this.#files !== null || (this.#underWay.size === 0 && this.#quietTurns + 1 >= QUIET_TURNS)) this.#lookAtFiles();
    const isBusy = this.#underWay.size > 0;
    if (isBusy) this.#quietTurns = 0;
    else this.#quietTurns++;
    const [next] = this.#timers;
    if (this.#quietTurns > QUIET_TURNS && next !== undefined) {
      this.#passed += Math.max(0, next.due - this.now);
      this.#fireDue();
    }
    // Leaves the cores to other threads while they work.
    if (isBusy || this.#quietTurns === QUIET_TURNS) this.#waits = real.setTimeout(() => this.#tick(), 1);
    else real.setImmediate(() => this.#tick());
  }

  #lookAtFiles(): void {
    if (isAtFiles()) this.#files ??= this.underWay();
    else if (this.#files !== null) {
      this.#files();
      this.#files = null;
    }
  }

  #fireDue(): void {
    while (this.#timers[0] !== undefined && this.#timers[0].due <= this.now) {
      this.#quietTurns = 0;
      const timer = this.#timers.shift()!;
      if (timer.every !== null && timer.process?.isDead !== true) this.#add(timer, timer.every);
      timer.fire();
    }
  }
}

function isAtFiles(): boolean {
  return process.getActiveResourcesInfo().some((name) => name.startsWith('FSReq') || name === 'CloseReq');
}

class VirtualTimer {
  due = 0;
  ms = 0;
  readonly id: number;
  readonly process = SimulatedProcess.current;
  readonly every: number | null;
  readonly #fire: () => void;
  readonly #add: (timer: VirtualTimer, ms: number) => void;

  constructor(id: number, run: () => void, every: number | null, add: (timer: VirtualTimer, ms: number) => void) {
    this.id = id;
    this.every = every;
    this.#add = add;
    const within = AsyncLocalStorage.snapshot();
    this.#fire = () => within(run);
  }

  fire(): void {
    if (this.process === undefined) this.#fire();
    else this.process.whenRunning(this.#fire);
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return true;
  }

  refresh(): this {
    this.#add(this, this.ms);
    return this;
  }

  close(): this {
    clearTimeout(this as unknown as NodeJS.Timeout);
    return this;
  }

  [Symbol.toPrimitive](): number {
    return this.id;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
