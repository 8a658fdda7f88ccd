import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

import { arrivals, atTimes } from './arrivals.ts';

const NUM_TOKENS = 8;
/** The stub's answer with that many tokens. */
const REPLY = 'word wor';

/** A server of OpenAI's chat completions with the model `instant`. */
export interface Target {
  readonly name: string;
  /** ends in `/v1` */
  readonly url: string;
  readonly key: string;
  /** processes of the target itself, without the stub */
  readonly pids: readonly number[];
}

/** Latencies of the answered requests, ms. */
export interface Load {
  readonly firstMs: number[];
  readonly wholeMs: number[];
  readonly numSent: number;
  readonly numFailed: number;
  /** Delay of each request after its due time, caused by the client and not part of the latency. */
  readonly lateMs: number[];
  /** Answers per second, from the first request to the last answer. */
  readonly perSecond: number;
}

const BODY = JSON.stringify({
  model: 'instant',
  messages: [
    { role: 'system', content: 'You are a terse assistant. Answer in plain words, and only what was asked.' },
    { role: 'user', content: `Repeat one word after me. ${'It is a short one. '.repeat(12)}` },
  ],
  max_tokens: NUM_TOKENS,
  temperature: 0.7,
  stream: true,
});
/** Wait after the last request: later answers count as failed. */
const MAX_WAIT_MS = 10_000;
/**
 * Above this number in flight requests are not sent but counted as failed: such a target is far beyond its
 * limit.
 */
const MAX_IN_FLIGHT = 2_000;

/**
 * Sends streamed requests at random times of one rate, regardless of the answers. Checks the answers at the
 * end: a client that parses during the measurement takes cores from the server.
 * @param seed determines the times
 */
export async function load(target: Target, options: { rate: number; seconds: number; seed: number }): Promise<Load> {
  const client = new Client(target);
  const due = arrivals(options);
  const sent: Exchange[] = [];
  const lateMs: number[] = [];
  const startedAt = await atTimes(due, (lateness) => {
    lateMs.push(lateness);
    if (client.numInFlight < MAX_IN_FLIGHT) sent.push(client.send());
  });
  const deadline = performance.now() + MAX_WAIT_MS;
  while (client.numInFlight > 0 && performance.now() < deadline) await delay(5);
  client.close();
  const answered = sent.filter((exchange) => exchange.endedAt !== null && exchange.fault === null);
  const lastAnswerAt = answered.reduce((last, { endedAt }) => Math.max(last, endedAt!), startedAt);
  return {
    firstMs: answered.map(({ sentAt, firstAt }) => firstAt! - sentAt),
    wholeMs: answered.map(({ sentAt, endedAt }) => endedAt! - sentAt),
    numSent: due.length,
    numFailed: due.length - answered.length,
    lateMs,
    perSecond: (1000 * answered.length) / (lastAnswerAt - startedAt),
  };
}

/** As many as in a burst of a measurement, which would otherwise be the first to open that many connections. */
const WARMUP_CLIENTS = 16;

/**
 * Sends the requests of a few clients one after the other, without overload, until that many are answered or
 * the time is over.
 * @throws {Error} for an unexpected answer
 */
export async function warmUp(target: Target, numRequests: number, maxSeconds: number): Promise<void> {
  const client = new Client(target);
  const deadline = performance.now() + 1000 * maxSeconds;
  let numLeft = numRequests;
  const one = async () => {
    while (numLeft > 0 && performance.now() < deadline) {
      numLeft -= 1;
      const exchange = client.send();
      await exchange.ended;
      if (exchange.fault !== null) throw new Error(`${target.name}: ${exchange.fault}`);
    }
  };
  await Promise.all(Array.from({ length: WARMUP_CLIENTS }, one));
  client.close();
}

/** End of a chunked HTTP answer. */
const LAST_PIECE = Buffer.from('\r\n0\r\n\r\n');
const ACCEPTED = 'HTTP/1.1 200 ';
/** Text in the first event with a token. */
const FIRST_TOKEN = /"content": ?"w/;

/** One request on its connection, and its answer. */
class Exchange {
  readonly sentAt = performance.now();
  firstAt: number | null = null;
  endedAt: number | null = null;
  readonly #pieces: Buffer[] = [];
  readonly #ended = Promise.withResolvers<void>();

  /** Resolves at its end, for any reason. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** @returns true if this was the last part */
  take(piece: Buffer): boolean {
    this.#pieces.push(piece);
    this.firstAt ??= FIRST_TOKEN.test(piece.toString('latin1')) ? performance.now() : null;
    const tail = piece.length >= LAST_PIECE.length ? piece : Buffer.concat(this.#pieces.slice(-LAST_PIECE.length));
    if (!tail.subarray(-LAST_PIECE.length).equals(LAST_PIECE)) return false;
    this.endedAt = performance.now();
    this.#ended.resolve();
    return true;
  }

  broken(): void {
    this.#ended.resolve();
  }

  get isRefused(): boolean {
    const [head] = this.#pieces;
    return head !== undefined && !head.toString('latin1', 0, ACCEPTED.length).startsWith(ACCEPTED);
  }

  /** The answer if it is faulty; null: none. */
  get fault(): string | null {
    const answer = Buffer.concat(this.#pieces).toString();
    if (this.endedAt === null || this.firstAt === null) return `no whole answer: ${answer}`;
    const [head = '', ...rest] = answer.split('\r\n\r\n');
    if (!head.startsWith(ACCEPTED)) return answer;
    const events = unchunked(rest.join('\r\n\r\n'))
      .split('\n\n')
      .filter((event) => event !== '');
    if (events.at(-1) !== 'data: [DONE]') return answer;
    const reply = events
      .slice(0, -1)
      .map((event) => (JSON.parse(event.slice('data: '.length)) as Chunk).choices[0]?.delta.content ?? '')
      .join('');
    return reply === REPLY ? null : answer;
  }
}

/** Joins the chunks of a body, each after its length in hexadecimal digits. All of it is ASCII here. */
function unchunked(body: string): string {
  let whole = '';
  for (let at = 0; at < body.length;) {
    const end = body.indexOf('\r\n', at);
    const length = Number.parseInt(body.slice(at, end), 16);
    if (!(length > 0)) break;
    whole += body.slice(end + 2, end + 2 + length);
    at = end + 2 + length + 2;
  }
  return whole;
}

interface Chunk {
  readonly choices: readonly { readonly delta: { readonly content?: string | null } }[];
}

/**
 * Kept connections that send the same request repeatedly: writes and reads bytes, and checks only for the
 * end. Node's own client takes twice the processor time, on the cores shared with the server.
 */
class Client {
  numInFlight = 0;
  readonly #host: string;
  readonly #port: number;
  readonly #request: Buffer;
  readonly #idle: Socket[] = [];
  readonly #all = new Set<Socket>();

  constructor({ url, key }: Target) {
    const { hostname, port, pathname } = new URL(`${url}/chat/completions`);
    this.#host = hostname;
    this.#port = Number(port);
    const head = [
      `POST ${pathname} HTTP/1.1`,
      `Host: ${hostname}:${port}`,
      `Authorization: Bearer ${key}`,
      'Content-Type: application/json',
      `Content-Length: ${Buffer.byteLength(BODY)}`,
    ];
    this.#request = Buffer.from(`${head.join('\r\n')}\r\n\r\n${BODY}`);
  }

  send(): Exchange {
    const socket = this.#idle.pop() ?? this.#open();
    const exchange = new Exchange();
    this.numInFlight += 1;
    const over = () => {
      this.numInFlight -= 1;
      socket.off('data', took).off('close', broke);
    };
    const took = (piece: Buffer) => {
      const isLast = exchange.take(piece);
      // The rest of a refusal is ignored.
      if (exchange.isRefused) socket.destroy();
      if (!isLast) return;
      over();
      this.#idle.push(socket);
    };
    const broke = () => {
      over();
      exchange.broken();
    };
    socket.on('data', took).once('close', broke).write(this.#request);
    return exchange;
  }

  close(): void {
    for (const socket of this.#all) socket.destroy();
  }

  #open(): Socket {
    const socket = connect(this.#port, this.#host).setNoDelay(true);
    this.#all.add(socket);
    // The following close reports it.
    socket.on('error', () => undefined);
    socket.once('close', () => {
      this.#all.delete(socket);
      const at = this.#idle.indexOf(socket);
      if (at >= 0) this.#idle.splice(at, 1);
    });
    return socket;
  }
}
