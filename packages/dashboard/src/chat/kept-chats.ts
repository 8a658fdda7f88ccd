import type { Exchange } from './chat-session.ts';

/** A conversation as it is kept in the browser. */
export interface KeptChat {
  readonly id: string;
  /** Its first input. */
  readonly title: string;
  readonly models: readonly string[];
  readonly system: string;
  readonly exchanges: readonly Exchange[];
}

const MAX_CHATS = 30;
/** Characters in all; browsers keep about 5 MB per address. */
const MAX_CHARACTERS = 2_000_000;
const TITLE_CHARACTERS = 60;
/** End of an answer that was coming when its page was left. */
const INTERRUPTED = 'the page was left';

/** Conversations of one key in this browser, the latest first. */
export class KeptChats {
  readonly #storage: Pick<Storage, 'getItem' | 'setItem'>;
  readonly #name: string;

  constructor(keyId: string, storage: Pick<Storage, 'getItem' | 'setItem'> = localStorage) {
    this.#storage = storage;
    this.#name = `trainyard-chats-${keyId}`;
  }

  list(): KeptChat[] {
    try {
      const kept: unknown = JSON.parse(this.#storage.getItem(this.#name) ?? '[]');
      return Array.isArray(kept) ? (kept as KeptChat[]) : [];
    } catch {
      return [];
    }
  }

  get(id: string): KeptChat | null {
    return this.list().find((chat) => chat.id === id) ?? null;
  }

  /** Keeps a conversation; the oldest are dropped if there is no room. */
  put(chat: Omit<KeptChat, 'title'>): void {
    const title = (chat.exchanges[0]?.input ?? '').slice(0, TITLE_CHARACTERS);
    const own = { ...chat, title, exchanges: chat.exchanges.map(withoutTokens) };
    let kept = [own, ...this.list().filter(({ id }) => id !== chat.id)].slice(0, MAX_CHATS);
    while (kept.length > 1 && JSON.stringify(kept).length > MAX_CHARACTERS) kept = kept.slice(0, -1);
    try {
      this.#storage.setItem(this.#name, JSON.stringify(kept));
    } catch {
      // The browser keeps nothing, as in a private window.
    }
  }
}

/** Tokens with their alternatives are a hundred times larger than the words. */
function withoutTokens(exchange: Exchange): Exchange {
  return {
    ...exchange,
    answers: exchange.answers.map((answer) =>
      answer === null
        ? null
        : {
            ...answer,
            isStreaming: false,
            error: null,
            replies: answer.replies.map((reply) => ({
              ...reply,
              tokens: [],
              finishReason: reply.finishReason ?? (answer.isStreaming ? INTERRUPTED : null),
            })),
          },
    ),
  };
}
