import { mkdirSync } from 'node:fs';
import type { Socket } from 'node:net';

import { connectTo, kindOf, makeMessage, PostgresMessages, PostgresProxy } from '@trainyard/store/testing';

import type { Faults } from './faults.ts';
import { LEDGER_CLOCK } from './ledger.ts';
import { SimulatedProcess } from './simulated-process.ts';
import type { VirtualTime } from './virtual-time.ts';
import type { Writer, WriterTurns } from './writer-turns.ts';

/** The server's own clock is not virtual, so its timeouts are simulated here. */
const SERVER_LIMITS = /set local (lock_timeout|statement_timeout|idle_in_transaction_session_timeout) = (\d+)/g;
/** Clock that `PostgresSql` reads under the writers' lock: milliseconds since the epoch. */
const NOW = /^\d{13}$/;
const CANCELLED = /\0C57014\0/;
export const CANCEL_REQUEST = 80_877_102;
/** Maximum time of a timer. */
const FOREVER_MS = 2 ** 31 - 1;

export interface NetworkOptions {
  /** of a schema */
  readonly database: string;
  /** folder of its own socket */
  readonly directory: string;
  readonly process: SimulatedProcess;
  readonly faults: Faults;
  readonly time: VirtualTime;
  readonly turns: WriterTurns;
}

/**
 * Network between one process and the database: messages and answers meet faults, and the server's clock and
 * timeouts are virtual.
 */
export class DisturbedNetwork {
  readonly database: string;
  readonly #proxy: PostgresProxy;
  readonly #connections: Set<DisturbedConnection>;

  static async open(options: NetworkOptions): Promise<DisturbedNetwork> {
    const { directory, database } = options;
    mkdirSync(directory, { recursive: true });
    const connections = new Set<DisturbedConnection>();
    const relay = (client: Socket, server: Socket): void => {
      const connection = new DisturbedConnection({ client, server }, options);
      connections.add(connection);
      connection.onEnd = () => connections.delete(connection);
    };
    const proxy = await SimulatedProcess.outside(() => PostgresProxy.start([database], { directory, relay }));
    const address = new URL(proxy.addressOf(database));
    address.searchParams.set('application_name', options.process.name);
    return new DisturbedNetwork(proxy, connections, address.href);
  }

  private constructor(proxy: PostgresProxy, connections: Set<DisturbedConnection>, database: string) {
    this.#proxy = proxy;
    this.#connections = connections;
    this.database = database;
  }

  /** Called when the process was killed. @param isTold its machine is alive, and notifies the server */
  abandon(isTold: boolean): void {
    if (isTold) for (const connection of this.#connections) connection.leaveServer();
  }

  async close(): Promise<void> {
    for (const connection of this.#connections) connection.end();
    await this.#proxy.stop();
  }
}

class DisturbedConnection implements Writer {
  onEnd: () => void = () => undefined;
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #options: NetworkOptions;
  /** Messages are handled in order. */
  #sent: Promise<void> = Promise.resolve();
  #answered: Promise<void> = Promise.resolve();
  /** A client's first message has no type letter. */
  #greeting: Buffer | null = Buffer.alloc(0);
  readonly #fromClient = new PostgresMessages();
  readonly #fromServer = new PostgresMessages();
  #isSilent = false;
  #isOver = false;
  #batch: Buffer[] = [];
  #batchText = '';
  /** Set while the server works on it. */
  #underWay: (() => void) | null = null;
  #cutsAnswer = false;
  #afterAnswer: (() => Promise<void>) | null = null;
  /** True if the current batch starts a transaction. */
  #begins = false;
  /** Server's timeout for an idle transaction, ms. */
  #idleMs = FOREVER_MS;
  #idleTimer: NodeJS.Timeout | null = null;
  /** Key of the connection at the server, to cancel its statement. */
  #serverKey: Buffer = Buffer.alloc(0);
  /** True from a message until its answer. */
  #isAsked = false;
  /** Settles when the server has cancelled, and no cancellation is in flight. */
  #givesUp: Promise<void> | null = null;

  constructor({ client, server }: { client: Socket; server: Socket }, options: NetworkOptions) {
    this.#client = client;
    this.#server = server;
    this.#options = options;
    this.stir();
    client.on('data', (bytes: Buffer) => this.#onClient(bytes));
    this.#server.on('data', (bytes: Buffer) => this.#onServer(bytes));
    client.on('close', () => this.#clientLeft());
    this.#server.on('close', () => this.#serverLeft());
  }

  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#client.destroy();
    this.leaveServer();
    this.onEnd();
  }

  /** Closes the connection at the server, which rolls back. */
  leaveServer(): void {
    this.#server.destroy();
    this.#isAsked = false;
    this.rest();
    clearTimeout(this.#idleTimer ?? undefined);
    this.#options.turns.leave(this);
  }

  rest(): void {
    this.#underWay?.();
    this.#underWay = null;
  }

  stir(): void {
    this.#underWay ??= this.#options.time.underWay();
  }

  giveUp(): void {
    this.#givesUp = this.#cancelUntilAnswered();
  }

  /** Repeats, because a cancellation that reaches the server before its message has no effect. */
  async #cancelUntilAnswered(): Promise<void> {
    const over = this.#options.time.underWay();
    while (this.#isAsked) await this.#cancel();
    over();
  }

  async #cancel(): Promise<void> {
    const request = Buffer.alloc(8);
    request.writeUInt32BE(8 + this.#serverKey.length);
    request.writeUInt32BE(CANCEL_REQUEST, 4);
    const canceller = connectTo(this.#options.database);
    const { promise, resolve } = Promise.withResolvers<void>();
    canceller.on('error', ignore).on('close', () => resolve());
    canceller.write(Buffer.concat([request, this.#serverKey]));
    canceller.resume();
    await promise;
  }

  #clientLeft(): void {
    // A silent network reports nothing to the server.
    if (!this.#isSilent) this.end();
  }

  #serverLeft(): void {
    this.leaveServer();
    if (this.#isSilent) return;
    // After its answers, and only while the process runs.
    this.#answered = this.#answered.then(() => this.#options.process.pass()).then(() => this.end());
  }

  #onClient(bytes: Buffer): void {
    if (this.#greeting !== null) {
      const greeting = Buffer.concat([this.#greeting, bytes]);
      const isWhole = greeting.length >= 4 && greeting.length >= greeting.readUInt32BE(0);
      this.#greeting = isWhole ? null : greeting;
      if (isWhole) this.#server.write(greeting);
      return;
    }
    for (const message of this.#fromClient.take(bytes)) {
      const kind = kindOf(message);
      if (kind === 'Q') this.#batchText = message.toString('utf8', 5, message.length - 1);
      if (kind === 'P') this.#batchText = message.toString('utf8', message.indexOf(0, 5) + 1, message.length - 3);
      this.#batch.push(message);
      if (kind !== 'Q' && kind !== 'S' && kind !== 'X') continue;
      const [batch, text] = [Buffer.concat(this.#batch), this.#batchText];
      this.#batch = [];
      this.#batchText = '';
      if (kind === 'X') this.#leave(batch);
      else this.#sent = this.#sent.then(() => this.#send(batch, text)).catch(ignore);
    }
  }

  /** The client leaves: the server ends the connection, too. */
  #leave(farewell: Buffer): void {
    if (this.#server.destroyed) return;
    this.stir();
    this.#server.write(farewell);
  }

  async #send(batch: Buffer, text: string): Promise<void> {
    const { process, faults, time, turns } = this.#options;
    const after = await faults.before(process);
    const fault = faults.ofMessage(process, text === 'commit');
    if (fault === 'cut before') return this.end();
    if (fault === 'silence') this.#isSilent = true;
    if (fault === 'slow') await time.sleep(faults.delayMs(process));
    if (this.#isSilent || this.#isOver || this.#server.destroyed) return;
    clearTimeout(this.#idleTimer ?? undefined);
    this.#cutsAnswer = fault === 'cut after';
    this.#afterAnswer = after;
    this.#begins = text.startsWith('begin ');
    this.#givesUp = null;
    this.#isAsked = true;
    this.stir();
    if (!this.#begins) return void this.#server.write(batch);
    const limits = Object.fromEntries([...text.matchAll(SERVER_LIMITS)].map(([, name, ms]) => [name, Number(ms)]));
    this.#idleMs = limits['idle_in_transaction_session_timeout'] ?? FOREVER_MS;
    const endless = text.replaceAll(SERVER_LIMITS, 'set local $1 = 0');
    const timed = endless.replace('; ', `; set local ${LEDGER_CLOCK} = ${Math.round(time.date)}; `);
    this.#server.write(makeMessage('Q', Buffer.from(`${timed}\0`)));
    turns.ask(this, limits['lock_timeout'] ?? FOREVER_MS);
  }

  #onServer(bytes: Buffer): void {
    const relayed: Buffer[] = [];
    let status: string | null = null;
    for (const message of this.#fromServer.take(bytes)) {
      const kind = kindOf(message);
      if (kind === 'K') this.#serverKey = message.subarray(5);
      if (kind === 'Z') status = String.fromCodePoint(message[5]!);
      if (kind === 'A') this.#notify(message);
      else relayed.push(this.#asSeen(message, kind));
    }
    const after = this.#afterAnswer;
    if (status !== null) this.#carriedOut(status);
    if (this.#cutsAnswer) return status === null ? undefined : this.end();
    if (relayed.length > 0) this.#answer(Buffer.concat(relayed), status === null ? null : after);
  }

  /** @param status `I` outside of a transaction, else `T`, or `E` in one that has failed */
  #carriedOut(status: string): void {
    const { turns } = this.#options;
    this.#isAsked = false;
    this.rest();
    this.#afterAnswer = null;
    if (status === 'T' && this.#begins) turns.take(this);
    else if (status === 'I' || this.#begins) turns.leave(this);
    if (status === 'I') return;
    this.#idleTimer = SimulatedProcess.outside(() => setTimeout(() => this.#endIdle(), this.#idleMs));
  }

  /** Simulates the server's timeout for an idle transaction. */
  #endIdle(): void {
    const why = 'terminating connection due to idle-in-transaction timeout';
    if (!this.#isSilent) this.#answer(errorMessage('FATAL', '25P03', why), null);
    this.leaveServer();
  }

  /** Server's answer as the client sees it. */
  #asSeen(message: Buffer, kind: string): Buffer {
    if (kind === 'D' && this.#begins) return withTime(message, this.#options.time.date);
    if (kind === 'E' && this.#givesUp !== null && CANCELLED.test(message.toString('latin1')))
      return errorMessage('ERROR', '55P03', 'canceling statement due to lock timeout');
    return message;
  }

  #answer(bytes: Buffer, after: (() => Promise<void>) | null): void {
    // A cancellation must be over before the next message, or it would cancel that one.
    const gaveUp = this.#givesUp;
    this.#answered = this.#answered
      .then(async () => {
        await gaveUp;
        await (after === null ? this.#options.process.pass() : after());
        if (!this.#isSilent && !this.#isOver) this.#client.write(bytes);
      })
      .catch(ignore);
  }

  #notify(message: Buffer): void {
    const { process, faults, time } = this.#options;
    const fault = faults.ofNotification(process);
    if (fault === 'dropped') return;
    if (fault === 'late') void time.sleep(faults.delayMs(process)).then(() => this.#answer(message, null));
    else this.#answer(message, null);
    if (fault === 'doubled') this.#answer(message, null);
  }
}

/** Replaces the server's clock, in a row of one column, by the virtual one. */
function withTime(row: Buffer, date: number): Buffer {
  if (row.length !== 24 || row.readUInt16BE(5) !== 1 || !NOW.test(row.toString('latin1', 11))) return row;
  const changed = Buffer.from(row);
  changed.write(String(Math.round(date)), 11, 'latin1');
  return changed;
}

function errorMessage(severity: 'ERROR' | 'FATAL', code: string, message: string): Buffer {
  const fields = [`S${severity}`, `V${severity}`, `C${code}`, `M${message}`];
  return makeMessage('E', Buffer.from(`${fields.map((field) => `${field}\0`).join('')}\0`));
}

function ignore(): void {}
