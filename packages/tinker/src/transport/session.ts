import { TrainerError } from '@trainyard/trainer';

import { asObject, asText } from '../wire/json-value.ts';
import { detailOf, jsonOf, type Reply, type SendOptions, type TinkerHttp } from './tinker-http.ts';

/** Reported SDK version. */
export const CLIENT_VERSION = '0.38.0';

const HEARTBEAT_MS = 10_000;
/** A server drops a session after 300 s. */
const SILENCE_LOGGED_MS = 120_000;

/** Its models live as long as heartbeats arrive. */
export class TinkerSession {
  readonly http: TinkerHttp;
  readonly id: string;
  readonly #log: (line: string) => void;
  readonly #stopHeartbeat: () => void;
  #heardAt: number;
  #isSilenceLogged = false;
  #lost: string | null = null;

  /** @throws {TrainerError} `trainer.remote_refused`, `trainer.remote_unavailable` */
  static async open(http: TinkerHttp, log: (line: string) => void): Promise<TinkerSession> {
    const body = { type: 'create_session', tags: ['trainyard'], user_metadata: {}, sdk_version: CLIENT_VERSION };
    const reply = accepted(await http.send('POST', 'create_session', { body }), 'create_session');
    const received = asObject(jsonOf(reply), 'a session');
    for (const kind of ['info_message', 'warning_message', 'error_message'])
      if (typeof received[kind] === 'string') log(`message from the Tinker server: ${received[kind]}`);
    return new TinkerSession(http, asText(received['session_id'], 'session_id'), log);
  }

  private constructor(http: TinkerHttp, id: string, log: (line: string) => void) {
    this.http = http;
    this.id = id;
    this.#log = log;
    this.#heardAt = http.clock.now();
    this.#stopHeartbeat = http.clock.every(HEARTBEAT_MS, () => void this.#beat());
  }

  get isAlive(): boolean {
    return this.#lost === null;
  }

  /** @throws {TrainerError} `trainer.host_lost` if the server has ended the session */
  requireAlive(): void {
    if (this.#lost !== null) throw new TrainerError('trainer.host_lost', this.#lost);
  }

  /** Requires a success status. @throws {TrainerError} */
  async post(route: string, body: object | Uint8Array, options: SendOptions = {}): Promise<Reply> {
    this.requireAlive();
    return accepted(await this.http.send('POST', route, { ...options, body }), route);
  }

  /** Ends the session and its models, if possible. */
  async close(): Promise<void> {
    this.#stopHeartbeat();
    if (this.#lost !== null) return;
    this.#lost = 'the session was closed';
    const body = { reason: { type: 'success' }, detail: null };
    await this.http.sendOnce('POST', `sessions/${this.id}/finish`, { body, timeoutMs: 10_000 }).catch(() => undefined);
  }

  async #beat(): Promise<void> {
    const body = { type: 'session_heartbeat', session_id: this.id };
    const reply = await this.http
      .sendOnce('POST', 'session_heartbeat', { body, timeoutMs: HEARTBEAT_MS })
      .catch(() => null);
    const now = this.http.clock.now();
    if (reply?.status === 404 || reply?.status === 410) {
      this.#lost ??= `the Tinker server ended the session (HTTP ${reply.status})`;
      this.#stopHeartbeat();
    } else if (reply !== null && reply.status < 300) {
      this.#heardAt = now;
      this.#isSilenceLogged = false;
    } else if (now - this.#heardAt > SILENCE_LOGGED_MS && !this.#isSilenceLogged) {
      this.#isSilenceLogged = true;
      this.#log('the Tinker server has answered no heartbeat for 120 s');
    }
  }
}

/** @throws {TrainerError} by the meaning of a refusal */
export function accepted(reply: Reply, route: string): Reply {
  const { status } = reply;
  if (status < 300) return reply;
  const received = `the Tinker server refused ${route} (${status}): ${detailOf(reply)}`;
  if (status === 401 || status === 403)
    throw new TrainerError('trainer.remote_refused', `${received}. Check the key in TRAINYARD_TRAINER_KEY`);
  throw failedOperation(received);
}

/** A restarted server reports unknown models as the failure of an operation. */
const FORGOTTEN =
  /not loaded|model.{0,60}not found|unknown model|session (?:was )?not found|session.{0,40}(?:ended|finished|expired)/i;
const FULL = /maximum number of (?:lora )?adapters|no free (?:slot|adapter)|too many (?:models|adapters)/i;
/** Names are never reused, so an existing checkpoint comes from a request whose answer was lost. */
const TAKEN = /checkpoint.{0,80}already exists/i;
const NO_CHECKPOINT = /checkpoint.{0,80}(?:not found|does not exist|expired)|no such checkpoint/i;

/** @returns the error with the right retry for an operation with this message */
export function failedOperation(message: string): TrainerError {
  if (FORGOTTEN.test(message) || TAKEN.test(message)) return new TrainerError('trainer.host_lost', message);
  if (FULL.test(message))
    return new TrainerError(
      'trainer.remote_unavailable',
      `${message}. The job waits for a slot: raise max_lora_adapters on the server, or end other sessions`,
    );
  if (NO_CHECKPOINT.test(message)) return new TrainerError('trainer.checkpoint_unreadable', message);
  return new TrainerError('trainer.remote_refused', message);
}
