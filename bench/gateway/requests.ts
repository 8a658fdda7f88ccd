import http from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';

const NUM_TOKENS = 8;
/** The stub's answer in so many tokens. */
const REPLY = 'word wor';

/** Some server of OpenAI's chat completions with the model `instant`. */
export interface Target {
  readonly name: string;
  /** ends in `/v1` */
  readonly url: string;
  readonly key: string;
  /** processes whose time is the target's, and not the stub's behind it */
  readonly pids: readonly number[];
}

/** Latencies in ms, of those that were answered. */
export interface Load {
  readonly firstMs: number[];
  readonly wholeMs: number[];
  readonly numSent: number;
  readonly numFailed: number;
  /** Delay of each request behind its due time: the client's own, which is in no latency. */
  readonly lateMs: number[];
  /** Answered a second, from the first request to the last answer. */
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
/** Behind the last request: who has not answered by then counts as failed. */
const MAX_WAIT_MS = 10_000;
/** More in flight than that are not sent but counted as failed: such a target is long past its limit. */
const MAX_IN_FLIGHT = 2_000;

/**
 * Sends streamed requests at random times of one rate, however fast they are answered.
 * @param seed the same one gives the same times
 */
export async function load(target: Target, options: { rate: number; seconds: number; seed: number }): Promise<Load> {
  const agent = new http.Agent({ keepAlive: true, maxSockets: MAX_IN_FLIGHT });
  const due = arrivals(options);
  const firstMs: number[] = [];
  const wholeMs: number[] = [];
  const lateMs: number[] = [];
  let numFailed = 0;
  let numInFlight = 0;
  let lastAnswerAt = 0;
  const startedAt = performance.now();
  const send = async () => {
    numInFlight += 1;
    try {
      const { first, whole } = await stream(target, agent);
      firstMs.push(first);
      wholeMs.push(whole);
    } catch {
      numFailed += 1;
    } finally {
      numInFlight -= 1;
      lastAnswerAt = performance.now();
    }
  };
  for (let next = 0; next < due.length;) {
    const now = performance.now() - startedAt;
    for (; next < due.length && due[next]! <= now; next++) {
      lateMs.push(performance.now() - startedAt - due[next]!);
      if (numInFlight >= MAX_IN_FLIGHT) numFailed += 1;
      else void send();
    }
    await delay(1);
  }
  const deadline = performance.now() + MAX_WAIT_MS;
  while (numInFlight > 0 && performance.now() < deadline) await delay(5);
  const perSecond = (1000 * wholeMs.length) / (lastAnswerAt - startedAt);
  numFailed += numInFlight;
  const result = { firstMs: [...firstMs], wholeMs: [...wholeMs], numSent: due.length, numFailed, lateMs, perSecond };
  agent.destroy();
  return result;
}

/** One request after the other of a few clients, which overloads nobody: until so many are answered or the time is over. */
export async function warmUp(target: Target, numRequests: number, maxSeconds: number): Promise<void> {
  const agent = new http.Agent({ keepAlive: true });
  const deadline = performance.now() + 1000 * maxSeconds;
  let numLeft = numRequests;
  const client = async () => {
    while (numLeft > 0 && performance.now() < deadline) {
      numLeft -= 1;
      await stream(target, agent);
    }
  };
  await Promise.all([client(), client(), client(), client()]);
  agent.destroy();
}

/** One streamed answer, checked. @returns ms until its first token and until its end @throws when it is anything else */
function stream({ url, key }: Target, agent: http.Agent): Promise<{ first: number; whole: number }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ first: number; whole: number }>();
  const sentAt = performance.now();
  const headers = {
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(BODY),
  };
  const request = http.request(`${url}/chat/completions`, { method: 'POST', agent, headers }, (response) => {
    let text = '';
    let first: number | null = null;
    response.setEncoding('utf8');
    response.on('data', (part: string) => {
      text += part;
      if (first === null && /"content": ?"w/.test(text)) first = performance.now() - sentAt;
    });
    response.on('error', reject);
    response.on('end', () => {
      const whole = performance.now() - sentAt;
      const fault = first === null ? text : faultOf(text);
      if (response.statusCode !== 200 || first === null || fault !== null)
        reject(new Error(`${response.statusCode}: ${fault}`));
      else resolve({ first, whole });
    });
  });
  request.on('error', reject);
  request.end(BODY);
  return promise;
}

/** @returns a stream that does not say what it should, else null */
function faultOf(text: string): string | null {
  const events = text.split('\n\n').filter((event) => event !== '');
  if (events.at(-1) !== 'data: [DONE]') return text;
  const said = events
    .slice(0, -1)
    .map((event) => (JSON.parse(event.slice('data: '.length)) as Chunk).choices[0]?.delta.content ?? '')
    .join('');
  return said === REPLY ? null : text;
}

interface Chunk {
  readonly choices: readonly { readonly delta: { readonly content?: string | null } }[];
}

/** Times of a Poisson process, ms. */
function arrivals({ rate, seconds, seed }: { rate: number; seconds: number; seed: number }): number[] {
  const times: number[] = [];
  let state = seed >>> 0;
  for (let at = 0; ;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    at += (-Math.log((state + 1) / 2 ** 32) * 1000) / rate;
    if (at >= 1000 * seconds) return times;
    times.push(at);
  }
}
