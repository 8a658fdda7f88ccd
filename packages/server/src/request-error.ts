import type { RequestErrorCode, ValidationItem } from '@trainyard/protocol';

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

  /** `request.invalid` from failed checks; the message is the first one, with its place. */
  static invalid(items: readonly ValidationItem[]): RequestError {
    const [first] = items;
    if (!first) throw new Error('an invalid request has at least one failed check');
    const param = paramOf(first.loc);
    const more = items.length > 1 ? ` (and ${items.length - 1} more)` : '';
    const got = 'input' in first && typeof first.input !== 'object' ? `, got ${JSON.stringify(first.input)}` : '';
    return new RequestError('request.invalid', `\`${param}\`: ${first.msg}${got}${more}`, { param, items });
  }
}

/** `['body', 'messages', 0, 'role']` → `messages.0.role`; the body itself → `body`. */
function paramOf(loc: readonly (string | number)[]): string {
  return loc.length > 1 ? loc.slice(1).join('.') : String(loc[0] ?? 'body');
}
