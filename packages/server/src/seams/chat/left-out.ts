import type { FastifyReply } from 'fastify';

/** Response header with the parts of a conversation that are left out or replaced by a text. */
const LEFT_OUT_HEADER = 'x-trainyard-left-out';

/** Parts of a request that no model here reads, counted by their kind in the request's form. */
export class LeftOut {
  readonly #counts = new Map<string, number>();

  add(kind: string): void {
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + 1);
  }

  /** Text such as `image=1, redacted_thinking=2`; empty if nothing was left out. */
  toString(): string {
    return [...this.#counts].map(([kind, count]) => `${kind}=${count}`).join(', ');
  }
}

const reports = new WeakMap<object, LeftOut>();

/** Attaches the left-out parts to a chat, for the header of its answer. */
export function reporting<Chat extends object>(chat: Chat, leftOut: LeftOut): Chat {
  reports.set(chat, leftOut);
  return chat;
}

export function leftOutOf(chat: object): LeftOut {
  return reports.get(chat) ?? new LeftOut();
}

/** Sets the header. Call it before the answer starts. @param chat of {@link reporting} */
export function reportLeftOut(reply: FastifyReply, chat: object): void {
  const text = leftOutOf(chat).toString();
  if (text !== '') reply.header(LEFT_OUT_HEADER, text);
}

/** @param about such as `image/png`; empty values are skipped */
export function leftOutText(what: 'Image' | 'File', about: readonly unknown[]): string {
  const facts = about.filter((fact): fact is string => typeof fact === 'string' && fact !== '' && fact.length <= 200);
  const details = facts.length === 0 ? '' : ` (${facts.join(', ')})`;
  return `[${what} left out${details}: this model reads only text.]`;
}

/** Media type of a `data:` URL, or the URL itself if it has another scheme. Empty for other values. */
export function mediaOf(url: unknown): string {
  if (typeof url !== 'string') return '';
  return url.startsWith('data:') ? (/^data:([\w.+/-]{1,100})/.exec(url)?.[1] ?? '') : url;
}
