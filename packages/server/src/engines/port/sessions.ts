import { nonce } from '../wire/engine-secret.ts';
import type { Signature } from '../wire/signature.ts';

/** More processes than ask one engine; the one that was silent for longest says hello again. */
const MAX_SESSIONS = 1_024;
/** Requests of a session that may overtake each other on the way. */
const WINDOW = 8_192;

/** Counts of one session that were used: all below `floor`, and those in `used`. */
interface Session {
  floor: number;
  readonly used: Set<number>;
}

/** Who has said hello, and which of their signatures were used: whoever hears one on the network cannot use it again. */
export class Sessions {
  /** The one that was used last is the last. */
  readonly #sessions = new Map<string, Session>();

  open(): string {
    const id = nonce();
    this.#sessions.set(id, { floor: 0, used: new Set() });
    const [oldest] = this.#sessions.keys();
    if (this.#sessions.size > MAX_SESSIONS && oldest !== undefined) this.#sessions.delete(oldest);
    return id;
  }

  /** Uses a signature up. @returns false for one that was used, and for a session that is not known any more */
  use({ session: id, count }: Signature): boolean {
    const session = this.#sessions.get(id);
    if (session === undefined || count < session.floor || session.used.has(count)) return false;
    this.#sessions.delete(id);
    this.#sessions.set(id, session);
    session.used.add(count);
    if (session.used.size >= 2 * WINDOW) forgetOlder(session);
    return true;
  }
}

function forgetOlder(session: Session): void {
  session.floor = Math.max(...session.used) - WINDOW;
  for (const count of session.used) if (count < session.floor) session.used.delete(count);
}
