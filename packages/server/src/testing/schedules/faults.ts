import { createHash } from 'node:crypto';

import { seededRandom } from '@trainyard/trainer/testing';

import { SimulatedProcess } from './simulated-process.ts';
import type { VirtualTime } from './virtual-time.ts';

/**
 * Faults of a message to the database. `cut`: the connection ends before the message arrives, or after its
 * execution and before its answer arrives.
 */
export type MessageFault = 'cut before' | 'cut after' | 'slow' | 'silence';
/**
 * Faults of a request to the bucket. `lost`: it is executed without an answer; `broken`: with half an answer.
 */
export type BucketFault = 'refused' | 'lost' | 'busy' | 'broken' | 'slow';
export type NotificationFault = 'dropped' | 'doubled' | 'late';
/** Faults of a process at a point: killed or stopped before or after it. */
type ProcessFault = 'killed before' | 'killed after' | 'stopped before' | 'stopped after' | 'stopped shortly';

/** Weighted by repetition: silence in a transaction blocks all other writers. */
const MESSAGE_FAULTS: readonly MessageFault[] = [
  'cut before',
  'cut before',
  'cut before',
  'cut after',
  'cut after',
  'cut after',
  'slow',
  'slow',
  'silence',
];
const BUCKET_FAULTS: readonly BucketFault[] = ['refused', 'lost', 'busy', 'broken', 'slow'];
const NOTIFICATION_FAULTS: readonly NotificationFault[] = ['dropped', 'doubled', 'late'];
const PROCESS_FAULTS: readonly ProcessFault[] = [
  'killed before',
  'killed after',
  'stopped before',
  'stopped after',
  'stopped shortly',
];

/** Faults that may cost a process its claims. */
const DISTURBING: ReadonlySet<string> = new Set([...MESSAGE_FAULTS, ...PROCESS_FAULTS]);
/** Faults that may cost others their claims, too: the process may have been in a transaction. */
const BLOCKING: ReadonlySet<string> = new Set(['silence', ...PROCESS_FAULTS]);

/**
 * Exports and imports fail after three lost services; this number of kills, long stops and lost leases causes
 * two at most.
 */
const MAX_LOST_ATTEMPTS = 2;
/** Duration of a claim without renewal. */
export const LEASE_MS = 30_000;
/** Time without a renewal after which another process may start a request under the same `Idempotency-Key`. */
export const REQUEST_MS = 60_000;

export interface FaultsOptions {
  readonly seed: string;
  readonly time: VirtualTime;
  readonly kill: (process: SimulatedProcess) => void;
}

/**
 * Faults drawn from a seed: first their kinds and rates in a schedule, then at each point by the process and
 * its number of points so far. A process with the same actions meets the same faults.
 */
export class Faults {
  /** Number of occurrences of each. */
  readonly counts = new Map<string, number>();
  isOn = true;
  readonly #options: FaultsOptions;
  readonly #randoms = new Map<string, () => number>();
  readonly #kinds: ReadonlySet<string>;
  readonly #often: number;
  /** Drops all notifications, like a pooler that shares connections. */
  readonly #isDeaf: boolean;
  /** Rate of layers that take longer than an unrenewed lease lasts. */
  readonly #longLayers: number;
  /** Faults that may cost a claim, with their time, ms since the epoch. */
  readonly #met: { readonly fault: string; readonly name: string; readonly at: number }[] = [];
  #numLostAttempts = 0;

  constructor(options: FaultsOptions) {
    this.#options = options;
    const random = this.#randomOf('faults');
    const all = [
      ...MESSAGE_FAULTS,
      ...BUCKET_FAULTS,
      ...NOTIFICATION_FAULTS,
      ...PROCESS_FAULTS,
      'no answer',
      'taken away',
    ];
    this.#kinds = new Set(all.filter(() => random() < 0.6));
    this.#often = [0.5, 1, 2][Math.floor(3 * random())]!;
    this.#isDeaf = random() < 0.15;
    this.#longLayers = random() < 0.3 ? 0.03 : 0;
  }

  /** @param isCommit commits get half of all message faults */
  ofMessage(process: SimulatedProcess, isCommit: boolean): MessageFault | null {
    return this.#draw(process, MESSAGE_FAULTS, isCommit ? 0.02 : 0.002);
  }

  /** About every tenth request, with any kind. */
  ofBucket(process: SimulatedProcess): BucketFault | null {
    return this.#draw(process, BUCKET_FAULTS, 0.1);
  }

  ofFolder(process: SimulatedProcess): boolean {
    return this.#draw(process, ['no answer'], 0.01) !== null;
  }

  ofNotification(process: SimulatedProcess): NotificationFault | null {
    if (this.#isDeaf && this.isOn) return this.#count('dropped', process.name);
    return this.#draw(process, NOTIFICATION_FAULTS, 0.2);
  }

  /** True if the lease of a running job is taken away now. */
  takesLeaseAway(): boolean {
    return this.#mayLoseAttempt() && this.#drawNamed('operator', ['taken away'], 0.02) !== null;
  }

  /**
   * Awaited by a process before an external action.
   * @returns a function to await after the action
   */
  async before(process: SimulatedProcess): Promise<() => Promise<void>> {
    await process.pass();
    const fault = this.#ofProcess(process);
    if (fault === 'killed before') this.#options.kill(process);
    if (fault === 'stopped before') this.#stop(process, this.#stopMs(process));
    await process.pass();
    return async () => {
      if (fault === 'killed after') this.#options.kill(process);
      if (fault === 'stopped after') this.#stop(process, this.#stopMs(process));
      if (fault === 'stopped shortly') this.#stop(process, LEASE_MS / 3);
      await process.pass();
    };
  }

  /** Time that a layer computes: none, or longer than a lease, by this process's draw. */
  computingMs(process: SimulatedProcess): number {
    return this.#longLayers > 0 && this.#randomOf(process.name)() < this.#longLayers ? LEASE_MS * 1.2 : 0;
  }

  /**
   * True if the process may have lost a claim because of an event in that time.
   * @param from, to ms since the epoch
   */
  mayLoseClaim(name: string, from: number, to: number): boolean {
    return this.#met.some((met) => met.at >= from && met.at <= to && (met.name === name || BLOCKING.has(met.fault)));
  }

  /**
   * Delay of a slow action, by this process's draw: mostly up to half a second, sometimes longer than others
   * wait.
   */
  delayMs(process: SimulatedProcess): number {
    const random = this.#randomOf(process.name);
    return random() < 0.05 ? 7_000 : 500 * random();
  }

  #ofProcess(process: SimulatedProcess): ProcessFault | null {
    if (!this.#mayLoseAttempt()) return null;
    const fault = this.#draw(process, PROCESS_FAULTS, 0.004);
    if (fault !== null && fault !== 'stopped shortly') this.#numLostAttempts++;
    return fault;
  }

  #mayLoseAttempt(): boolean {
    return this.#numLostAttempts < MAX_LOST_ATTEMPTS;
  }

  /** Longer than a lease, and half of the time also longer than a request stays with its process. */
  #stopMs(process: SimulatedProcess): number {
    return this.#randomOf(process.name)() < 0.5 ? LEASE_MS * 1.5 : REQUEST_MS * 1.25;
  }

  #stop(process: SimulatedProcess, ms: number): void {
    process.freeze();
    // Outside, because a timer of the process would be stopped, too.
    SimulatedProcess.outside(() => setTimeout(() => process.thaw(), ms));
  }

  #draw<Fault extends string>(process: SimulatedProcess, faults: readonly Fault[], share: number): Fault | null {
    return this.#drawNamed(process.name, faults, share);
  }

  #drawNamed<Fault extends string>(name: string, faults: readonly Fault[], share: number): Fault | null {
    const random = this.#randomOf(name);
    const [isFault, which] = [random() < share * this.#often, random()];
    if (!isFault || !this.isOn) return null;
    const fault = faults[Math.floor(which * faults.length)]!;
    if (!this.#kinds.has(fault)) return null;
    return this.#count(fault, name);
  }

  #count<Fault extends string>(fault: Fault, name: string): Fault {
    this.counts.set(fault, (this.counts.get(fault) ?? 0) + 1);
    if (DISTURBING.has(fault)) this.#met.push({ fault, name, at: this.#options.time.date });
    return fault;
  }

  #randomOf(name: string): () => number {
    let random = this.#randoms.get(name);
    if (random === undefined) {
      const digest = createHash('sha256').update(`${this.#options.seed} ${name}`).digest();
      this.#randoms.set(name, (random = seededRandom(digest.readUInt32LE(0))));
    }
    return random;
  }
}
