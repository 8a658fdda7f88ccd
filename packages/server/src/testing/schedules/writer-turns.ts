import { SimulatedProcess } from './simulated-process.ts';

/** A connection as seen by those that wait for it. */
export interface Writer {
  /** The server does nothing until another connection continues: time need not wait for it. */
  rest(): void;
  /** It may be answered at once. */
  stir(): void;
  /** Its wait has timed out. */
  giveUp(): void;
}

/**
 * Holder of the database's writers' lock, and its queue. The lock is the server's own; this class tracks it
 * from network traffic, so that a wait for a process stopped in a transaction takes virtual time.
 */
export class WriterTurns {
  #holder: Writer | null = null;
  readonly #waiting = new Map<Writer, NodeJS.Timeout>();

  /** The writer requests the lock. */
  ask(writer: Writer, patienceMs: number): void {
    const timer = SimulatedProcess.outside(() => setTimeout(() => writer.giveUp(), patienceMs));
    this.#waiting.set(writer, timer);
    if (this.#holder !== null) writer.rest();
  }

  /** The writer has the lock. */
  take(writer: Writer): void {
    this.#leaveQueue(writer);
    this.#holder = writer;
    for (const other of this.#waiting.keys()) other.rest();
  }

  /** The writer releases the lock, or leaves the queue. */
  leave(writer: Writer): void {
    this.#leaveQueue(writer);
    if (this.#holder !== writer) return;
    this.#holder = null;
    for (const other of this.#waiting.keys()) other.stir();
  }

  #leaveQueue(writer: Writer): void {
    clearTimeout(this.#waiting.get(writer));
    this.#waiting.delete(writer);
  }
}
