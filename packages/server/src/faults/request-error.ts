import type { RequestErrorCode, ValidationItem } from '@trainyard/protocol';

/** Further faults of one place that a message tells. */
const MAX_TOLD_FAULTS = 7;

/** A request that is refused before any back end sees it. The message is for the client. */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  readonly code: RequestErrorCode;
  /** The wire field at fault. */
  readonly param: string | null;
  /** The failed checks one by one; when present they are the answer's `detail`. */
  readonly items: readonly ValidationItem[] | null;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: RequestErrorCode,
    message: string,
    options: {
      param?: string | null;
      items?: readonly ValidationItem[];
      headers?: Record<string, string>;
      cause?: unknown;
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.param = options.param ?? null;
    this.items = options.items ?? null;
    this.headers = options.headers ?? {};
  }

  /** `request.invalid` from failed checks; the message is the first one, with its place, and what else is wrong with the keys of that place. */
  static invalid(items: readonly ValidationItem[]): RequestError {
    const [first] = items;
    if (!first) throw new Error('an invalid request has at least one failed check');
    const param = paramOf(first.loc);
    const others = items.slice(1);
    const keys = others
      .filter(({ loc, type }) => type === first.type && paramOf(loc) === param)
      .slice(0, MAX_TOLD_FAULTS);
    const also = keys.map(({ msg }) => `; ${msg}`).join('');
    const numLeft = others.length - keys.length;
    const more = numLeft > 0 ? ` (and ${numLeft} more)` : '';
    const got = 'input' in first && typeof first.input !== 'object' ? `, got ${JSON.stringify(first.input)}` : '';
    return new RequestError('request.invalid', `\`${param}\`: ${first.msg}${got}${also}${more}`, { param, items });
  }
}

/** `['body', 'messages', 0, 'role']` → `messages.0.role`; the body itself → `body`. */
function paramOf(loc: readonly (string | number)[]): string {
  return loc.length > 1 ? loc.slice(1).join('.') : String(loc[0] ?? 'body');
}
