import { type Backlog, compareBacklogs } from './backlog.ts';
import { Heap, type HeapItem } from './heap.ts';
import type { CellAccount } from './kv-ledger.ts';
import type { Sequence } from './sequence.ts';

/** Otherwise a newcomer would soon be preempted. */
export const GROWTH_RESERVE_TOKENS = 16;

export class TenantShare implements HeapItem, CellAccount {
  heapPlace = -1;
  liveCells = 0;
  heldCells = 0;
  /** Requests in flight, including paused ones. */
  numRequests = 0;
  readonly name: string;
  /** Requests with sequences that could be admitted. */
  readonly backlogs = new Heap<Backlog>(compareBacklogs);
  /** Sorted by {@link Sequence.compare}. */
  readonly running: Sequence[] = [];
  /** Service so far in tokens, as counted by {@link Turns}. */
  virtualTime: number;
  /** Number of its last admission: of tenants with as many sequences the one that waited longest goes first. */
  lastAdmission = 0;

  constructor(name: string, virtualTime: number) {
    this.name = name;
    this.virtualTime = virtualTime;
  }

  get hasWork(): boolean {
    return this.running.length > 0 || this.backlogs.size > 0;
  }

  /** Includes the cells that running sequences are about to take. */
  get claimedTokens(): number {
    return this.running.reduce((sum, { numRemaining }) => sum + numRemaining + GROWTH_RESERVE_TOKENS, this.liveCells);
  }

  get hasRunnable(): boolean {
    return this.running.some(({ isRunnable }) => isRunnable);
  }

  get numPaused(): number {
    return this.running.reduce((sum, { owner }) => sum + (owner.isPaused ? 1 : 0), 0);
  }
  get lastPaused(): Sequence | undefined {
    return this.running.findLast(({ owner }) => owner.isPaused);
  }

  /** Sequence to give up first: one without a reader, else the last in order. */
  get lastToKeep(): Sequence | undefined {
    return this.running.findLast((sequence) => !sequence.isRunnable) ?? this.running.at(-1);
  }
}

export function compareTenants(a: TenantShare, b: TenantShare): number {
  return a.running.length - b.running.length || a.lastAdmission - b.lastAdmission;
}
