import { SimulatedProcess } from './simulated-process.ts';

/** A connection as those see it who wait behind it. */
export interface Writer {
  /** Nothing happens at the server until another connection gets on: time need not wait for it. */
  rest(): void;
  /** It may be answered at once. */
  stir(): void;
  /** It has waited for as long as it wanted to. */
  giveUp(): void;
}

/**
 * Who holds the writers' lock of the database, and who waits for it. The lock is the server's own; this knows of it what has gone over the network, so that a
 * wait for a process that stands still in the middle of a transaction is one of virtual time.
 */
export class WriterTurns {
  #holder: Writer | null = null;
  readonly #waiting = new Map<Writer, NodeJS.Timeout>();

  /** It asks for the lock. */
  ask(writer: Writer, patienceMs: number): void {
    const timer = SimulatedProcess.outside(() => setTimeout(() => writer.giveUp(), patienceMs));
    this.#waiting.set(writer, timer);
    if (this.#holder !== null) writer.rest();
  }

  /** It has the lock. */
  take(writer: Writer): void {
    this.#leaveQueue(writer);
    this.#holder = writer;
    for (const other of this.#waiting.keys()) other.rest();
  }

  /** It neither has the lock nor waits for it any more. */
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
