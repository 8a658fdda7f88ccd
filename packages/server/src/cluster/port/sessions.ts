import { EngineSecret, nonce } from '../wire/engine-secret.ts';
import type { Signature } from '../wire/signature.ts';

/** More processes than ask one engine; the one that was silent for longest says hello again. */
const MAX_SESSIONS = 1_024;
/** Requests of a session that may overtake each other on the way. */
const WINDOW = 8_192;

/** Counts of one session that were used: all below `floor`, and those in `used`. */
interface Session {
  /** of the hellos of this process */
  readonly number: number;
  floor: number;
  readonly used: Set<number>;
}

/**
 * Who asks, and which of their signatures were used: whoever hears one on the network cannot use it again. A hello can be heard and said again, so nothing is
 * kept for one: its session shows by its name that it was begun here, and takes room with its first signature, which only who has the secret can make.
 */
export class Sessions {
  /** Names of sessions are made with it; it ends with this process, and they with it. */
  readonly #key = new EngineSecret(nonce());
  /** The one that was used last is the last. */
  readonly #sessions = new Map<string, Session>();
  #numBegun = 0;
  /** The newest number of a session that was forgotten: those up to it are begun no more, since their signatures may have been used. */
  #forgotten = 0;

  /** @returns the name of a session */
  open(): string {
    this.#numBegun += 1;
    return `${this.#numBegun}~${this.#key.codeOf(String(this.#numBegun))}`;
  }

  /** Uses a signature up. @returns false for one that was used, and for a session that is not known any more */
  use({ session: id, count }: Signature): boolean {
    const session = this.#sessions.get(id) ?? this.#begin(id);
    if (session === null || count < session.floor || session.used.has(count)) return false;
    this.#sessions.delete(id);
    this.#sessions.set(id, session);
    session.used.add(count);
    if (session.used.size >= 2 * WINDOW) forgetOlder(session);
    this.#makeRoom();
    return true;
  }

  #begin(id: string): Session | null {
    const [counted = '', code = ''] = id.split('~', 2);
    const number = Number(counted);
    if (!(number > this.#forgotten) || !this.#key.isCodeOf(code, counted)) return null;
    return { number, floor: 0, used: new Set() };
  }

  #makeRoom(): void {
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
