import {
  briefly,
  type FieldNames,
  type FieldText,
  type NamedField,
  renameFields,
  type RequestErrorCode,
  renderFieldText,
  type ValidationItem,
} from '@trainyard/protocol';

/** Maximum number of further faults of one place in a message. */
const MAX_TOLD_FAULTS = 7;

export interface RequestErrorOptions {
  /**
   * Field at fault: of a chat or a text completion, which other forms rename; or a place in the body itself.
   */
  readonly param?: NamedField | string | null;
  readonly items?: readonly ValidationItem[];
  /**
   * The items use field names of a chat or a text completion. Default false: they are places in the body
   * itself.
   */
  readonly hasNamedItems?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
}

/** A request that is refused before any back end gets it. The message is for the client. */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  readonly code: RequestErrorCode;
  readonly param: string | null;
  /** Failed checks one by one; if present, they become the answer's `detail`. */
  readonly items: readonly ValidationItem[] | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly #text: FieldText;
  readonly #options: RequestErrorOptions;

  constructor(code: RequestErrorCode, text: FieldText | string, options: RequestErrorOptions = {}) {
    const { param = null, items = null, headers = {}, cause } = options;
    super(typeof text === 'string' ? text : renderFieldText(text), cause === undefined ? undefined : { cause });
    this.code = code;
    this.param = typeof param === 'object' && param !== null ? param.field : param;
    this.items = items;
    this.headers = headers;
    this.#text = typeof text === 'string' ? [text] : text;
    this.#options = options;
  }

  /** Renames the fields for the clients of another request form. Places in the body stay unchanged. */
  inForm(nameOf: FieldNames): RequestError {
    const { param = null, items, hasNamedItems = false } = this.#options;
    const rest = { headers: this.headers, cause: this };
    if (hasNamedItems && items !== undefined) {
      const own = items.map((item) => ({ ...item, loc: renamedPlace(item.loc, nameOf) }));
      return RequestError.invalid(own, rest);
    }
    return new RequestError(this.code, renameFields(this.#text, nameOf), {
      ...rest,
      param: typeof param === 'object' && param !== null ? nameOf(param.field) : param,
      ...(items === undefined ? {} : { items }),
    });
  }

  /**
   * `request.invalid` from failed checks. The message is the first one, with its place, and further faults of
   * keys at that place.
   */
  static invalid(
    items: readonly ValidationItem[],
    options: Pick<RequestErrorOptions, 'hasNamedItems' | 'headers' | 'cause'> = {},
  ): RequestError {
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
    return new RequestError('request.invalid', `\`${briefly(param)}\`: ${first.msg}${got}${also}${more}`, {
      ...options,
      param,
      items,
    });
  }
}

/** `['body', 'messages', 0, 'role']` → `messages.0.role`; the body itself → `body`. */
function paramOf(loc: readonly (string | number)[]): string {
  return loc.length > 1 ? loc.slice(1).join('.') : String(loc[0] ?? 'body');
}

/** `messages.0.role` → `['messages', 0, 'role']`. */
export function placeOfParam(param: string): (string | number)[] {
  return param.split('.').map((part) => (/^\d+$/.test(part) ? Number(part) : part));
}

/** A place in a body whose first key is a field: `['body', 'messages', 0]` → `['body', 'input', 0]`. */
function renamedPlace([part = 'body', field, ...rest]: readonly (string | number)[], nameOf: FieldNames) {
  if (part !== 'body' || typeof field !== 'string') return [part, ...(field === undefined ? [] : [field]), ...rest];
  return [part, ...nameOf(field).split('.'), ...rest];
}
