import { mkdirSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';

import type { Faults } from './faults.ts';
import { SimulatedProcess } from './simulated-process.ts';
import type { VirtualTime } from './virtual-time.ts';

const PORT = 5432;
/** PostgreSQL has no virtual time: what it waits for is shorter by this, or every process that stands still within a transaction would cost ten seconds of the machine. */
const SHORTER = 5;
const SERVER_LIMITS = /set local (lock_timeout|idle_in_transaction_session_timeout) = (\d+)/g;
/** The clock that `PostgresSql` asks for behind the writers' lock: milliseconds since the epoch. */
const NOW = /^\d{13}$/;

export interface ProxyOptions {
  /** of the database server's socket */
  readonly serverDirectory: string;
  /** where its own socket lies */
  readonly directory: string;
  readonly process: SimulatedProcess;
  readonly faults: Faults;
  readonly time: VirtualTime;
}

/** The network between one process and the database: messages and answers meet faults, and the server's clock is the virtual one. */
export class PostgresProxy {
  readonly #options: ProxyOptions;
  readonly #connections = new Set<ProxiedConnection>();
  readonly #server: Server;

  static async open(options: ProxyOptions): Promise<PostgresProxy> {
    mkdirSync(options.directory, { recursive: true });
    return await SimulatedProcess.outside(async () => {
      const proxy = new PostgresProxy(options);
      await new Promise<void>((resolve) => proxy.#server.listen(join(options.directory, `.s.PGSQL.${PORT}`), resolve));
      return proxy;
    });
  }

  private constructor(options: ProxyOptions) {
    this.#options = options;
    this.#server = createServer((client) => {
      const connection = new ProxiedConnection(client, options);
      this.#connections.add(connection);
      connection.onEnd = () => this.#connections.delete(connection);
    });
  }

  /** The address for a client, in place of the server's own socket. */
  get host(): string {
    return this.#options.directory;
  }

  /** The process was killed. @param isTold its machine lives, and tells the server so */
  abandon(isTold: boolean): void {
    if (isTold) for (const connection of this.#connections) connection.leaveServer();
  }

  close(): void {
    this.#server.close();
    for (const connection of this.#connections) connection.end();
  }
}

class ProxiedConnection {
  onEnd: () => void = () => undefined;
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #options: ProxyOptions;
  /** Messages are handled one after the other. */
  #sent: Promise<void> = Promise.resolve();
  #answered: Promise<void> = Promise.resolve();
  #fromClient: Buffer = Buffer.alloc(0);
  #fromServer: Buffer = Buffer.alloc(0);
  #isStarted = false;
  #isSilent = false;
  #isOver = false;
  #batch: Buffer[] = [];
  #batchText = '';
  /** The server is at it. */
  #underWay: (() => void) | null = null;
  #cutsAnswer = false;
  #afterAnswer: (() => Promise<void>) | null = null;
  #asksTime = false;

  constructor(client: Socket, options: ProxyOptions) {
    this.#client = client;
    this.#options = options;
    this.#server = connect(join(options.serverDirectory, `.s.PGSQL.${PORT}`));
    this.#underWay = options.time.underWay();
    client.on('data', (bytes: Buffer) => this.#onClient(bytes));
    this.#server.on('data', (bytes: Buffer) => this.#onServer(bytes));
    client.on('error', ignore).on('close', () => this.#clientLeft());
    this.#server.on('error', ignore).on('close', () => this.#serverLeft());
  }

  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#underWay?.();
    this.#client.destroy();
    this.#server.destroy();
    this.onEnd();
  }

  leaveServer(): void {
    this.#server.destroy();
  }

  #clientLeft(): void {
    // A network that is silent tells the server nothing.
    if (!this.#isSilent) this.end();
  }

  #serverLeft(): void {
    this.#underWay?.();
    if (this.#isSilent) return;
    // Behind what it has answered, and when the process runs.
    this.#answered = this.#answered.then(() => this.#options.process.pass()).then(() => this.end());
  }

  #onClient(bytes: Buffer): void {
    this.#fromClient = Buffer.concat([this.#fromClient, bytes]);
    if (!this.#isStarted) {
      if (this.#fromClient.length < 4 || this.#fromClient.length < this.#fromClient.readUInt32BE(0)) return;
      this.#isStarted = true;
      this.#server.write(this.#fromClient);
      this.#fromClient = Buffer.alloc(0);
      return;
    }
    for (const message of this.#messages('client')) {
      const kind = String.fromCodePoint(message[0]!);
      if (kind === 'Q') this.#batchText = message.toString('utf8', 5, message.length - 1);
      if (kind === 'P') this.#batchText = message.toString('utf8', message.indexOf(0, 5) + 1, message.length - 3);
      this.#batch.push(message);
      if (kind !== 'Q' && kind !== 'S' && kind !== 'X') continue;
      const [batch, text] = [Buffer.concat(this.#batch), this.#batchText];
      this.#batch = [];
      this.#batchText = '';
      if (kind === 'X') this.#server.write(batch);
      else this.#sent = this.#sent.then(() => this.#send(batch, text)).catch(ignore);
    }
  }

  async #send(batch: Buffer, text: string): Promise<void> {
    const { process, faults, time } = this.#options;
    const after = await faults.before(process);
    const fault = faults.ofMessage(process, text === 'commit');
    if (fault === 'cut before') return this.end();
    if (fault === 'silence') this.#isSilent = true;
    if (fault === 'slow') await time.sleep(faults.delayMs(process));
    if (this.#isSilent || this.#isOver) return;
    this.#cutsAnswer = fault === 'cut after';
    this.#afterAnswer = after;
    this.#asksTime = text.startsWith('begin ');
    this.#underWay = time.underWay();
    this.#server.write(withServerLimits(batch, text));
  }

  #onServer(bytes: Buffer): void {
    this.#fromServer = Buffer.concat([this.#fromServer, bytes]);
    const relayed: Buffer[] = [];
    let isReady = false;
    for (const message of this.#messages('server')) {
      const kind = String.fromCodePoint(message[0]!);
      if (kind === 'A') this.#notify(message);
      else relayed.push(kind === 'D' && this.#asksTime ? withTime(message, this.#options.time.date) : message);
      isReady ||= kind === 'Z';
    }
    const cuts = this.#cutsAnswer;
    if (isReady) {
      this.#underWay?.();
      if (cuts) return this.end();
    } else if (cuts) return;
    if (relayed.length > 0) this.#answer(Buffer.concat(relayed), isReady ? this.#afterAnswer : null);
    if (isReady) this.#afterAnswer = null;
  }

  #answer(bytes: Buffer, after: (() => Promise<void>) | null): void {
    this.#answered = this.#answered
      .then(async () => {
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

  /** Whole messages of what came: a letter, a length, which counts itself, and so many bytes. */
  #messages(from: 'client' | 'server'): Buffer[] {
    const bytes = from === 'client' ? this.#fromClient : this.#fromServer;
    const messages: Buffer[] = [];
    let at = 0;
    while (at + 5 <= bytes.length && at + 1 + bytes.readUInt32BE(at + 1) <= bytes.length) {
      const end = at + 1 + bytes.readUInt32BE(at + 1);
      messages.push(bytes.subarray(at, end));
      at = end;
    }
    const rest = bytes.subarray(at);
    if (from === 'client') this.#fromClient = rest;
    else this.#fromServer = rest;
    return messages;
  }
}

function withServerLimits(batch: Buffer, text: string): Buffer {
  if (!text.startsWith('begin ')) return batch;
  const scaled = text.replaceAll(SERVER_LIMITS, (_, name: string, ms: string) => {
    return `set local ${name} = ${Math.max(1, Math.round(Number(ms) / SHORTER))}`;
  });
  const body = Buffer.from(`${scaled}\0`);
  const head = Buffer.alloc(5);
  head.write('Q');
  head.writeUInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

/** A row of one column that is the server's clock: the virtual one. */
function withTime(row: Buffer, date: number): Buffer {
  if (row.length !== 24 || row.readUInt16BE(5) !== 1 || !NOW.test(row.toString('latin1', 11))) return row;
  const changed = Buffer.from(row);
  changed.write(String(Math.round(date)), 11, 'latin1');
  return changed;
}

function ignore(): void {}
