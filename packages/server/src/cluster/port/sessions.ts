import { EngineSecret, nonce } from '../wire/engine-secret.ts';
import type { Signature } from '../wire/signature.ts';

/**
 * Maximum number of sessions, more than the processes that call one engine. Beyond it, the session silent for
 * longest must send hello again.
 */
const MAX_SESSIONS = 1_024;
/** Requests of a session that may arrive out of order. */
const WINDOW = 8_192;

interface Session {
  /** sequence number among this process's hellos */
  readonly number: number;
  floor: number;
  readonly used: Set<number>;
}

/**
 * Sessions and their used signatures: an overheard signature cannot be used again. A hello can be replayed,
 * so nothing is stored for it: a session takes memory only with its first signature, which requires the
 * secret.
 */
export class Sessions {
  /** Key of the session names. It ends with this process, as do the sessions. */
  readonly #key = new EngineSecret(nonce());
  /** In order of last use. */
  readonly #sessions = new Map<string, Session>();
  #numBegun = 0;
  /**
   * Newest number of a forgotten session: sessions up to it are refused, because their signatures may have
   * been used.
   */
  #forgotten = 0;

  /** @returns the name of a new session */
  open(): string {
    this.#numBegun += 1;
    return `${this.#numBegun}~${this.#key.codeOf(String(this.#numBegun))}`;
  }

  /** Consumes a signature. @returns false if it was used before, or its session is forgotten */
  use({ session: id, count }: Signature): boolean {
    const session = this.#sessions.get(id) ?? this.#begin(id);
    if (session === null || count < session.floor || session.used.has(count)) return false;
    this.#sessions.delete(id);
    this.#sessions.set(id, session);
    session.used.add(count);
    if (session.used.size >= 2 * WINDOW) forgetOlder(session);
    this.#evictOldest();
    return true;
  }

  #begin(id: string): Session | null {
    const [counted = '', code = ''] = id.split('~', 2);
    const number = Number(counted);
    if (!(number > this.#forgotten) || !this.#key.isCodeOf(code, counted)) return null;
    return { number, floor: 0, used: new Set() };
  }

  #evictOldest(): void {
    const [oldest] = this.#sessions;
    if (this.#sessions.size <= MAX_SESSIONS || oldest === undefined) return;
    const [id, { number }] = oldest;
    this.#sessions.delete(id);
    this.#forgotten = Math.max(this.#forgotten, number);
  }
}

function forgetOlder(session: Session): void {
  session.floor = Math.max(...session.used) - WINDOW;
  for (const count of session.used) if (count < session.floor) session.used.delete(count);
}
