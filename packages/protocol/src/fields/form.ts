/**
 * Form of a value: a JSON schema as plain data, with its static type. It needs no imports, so the tables of
 * fields also load in processes that never compile a schema, such as samplers and trainers.
 */
export interface Form<out Value> {
  readonly type?: string;
  readonly enum?: readonly (string | boolean)[];
  readonly const?: string | number;
  readonly anyOf?: readonly Form<unknown>[];
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly exclusiveMaximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly [keyword: string]: unknown;
  /** Exists only in types. */
  readonly [VALUE]?: Value;
}
declare const VALUE: unique symbol;

export type ValueOf<F> = F extends Form<infer Value> ? Value : never;

export interface NumberLimits {
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly exclusiveMaximum?: number;
}

export interface ListLimits {
  readonly minItems?: number;
  readonly maxItems?: number;
}

export const number = (limits: NumberLimits = {}): Form<number> => ({ type: 'number', ...limits });

/** Largest finite number of single precision. */
export const LARGEST_SINGLE = (2 - 2 ** -23) * 2 ** 127;

/** Number used in single precision. @param limits default: its whole range */
export const single = (limits: NumberLimits = {}): Form<number> => ({
  type: 'number',
  ...(limits.exclusiveMinimum === undefined ? { minimum: -LARGEST_SINGLE } : {}),
  ...(limits.exclusiveMaximum === undefined ? { maximum: LARGEST_SINGLE } : {}),
  ...limits,
});

export const integer = (limits: NumberLimits = {}): Form<number> => ({ type: 'integer', ...limits });

export const exactly = (value: number): Form<number> => ({ type: 'number', const: value });

export const boolean = (): Form<boolean> => ({ type: 'boolean' });

export const text = (limits: { minLength?: number; maxLength?: number; pattern?: string } = {}): Form<string> => ({
  type: 'string',
  ...limits,
});

export const oneOf = <const Choice extends string>(...choices: readonly Choice[]): Form<Choice> => ({ enum: choices });

export const literal = <const Text extends string>(value: Text): Form<Text> => ({ const: value, type: 'string' });

export const listOf = <Item>(items: Form<Item>, limits: ListLimits = {}): Form<Item[]> => ({
  type: 'array',
  items,
  ...limits,
});

export const anyOf = <const Forms extends readonly Form<unknown>[]>(
  ...forms: Forms
): Form<ValueOf<Forms[number]>> & { readonly anyOf: Forms } => ({ anyOf: forms });

export const optionalMembers = <const Members extends Readonly<Record<string, Form<unknown>>>>(
  properties: Members,
): Form<{ -readonly [Name in keyof Members]?: ValueOf<Members[Name]> }> => ({ type: 'object', properties });

/**
 * Rule that a single value breaks, in words: `a finite number in (0, 1]`; null if the value is fit.
 *
 * Checks numbers, integers, booleans, choices, lengths of lists, and unions of these; accepts any other form.
 */
export function unfitness(form: Form<unknown>, value: unknown): string | null {
  if (form.anyOf !== undefined) {
    const rules = form.anyOf.map((one) => unfitness(one, value));
    return rules.includes(null) ? null : rules.join(' or ');
  }
  if (typeof form.const === 'number') return value === form.const ? null : String(form.const);
  if (form.enum !== undefined) return form.enum.includes(value as string) ? null : `one of ${form.enum.join(', ')}`;
  if (form.type === 'array') return listUnfitness(form, value);
  if (form.type === 'boolean') return typeof value === 'boolean' ? null : 'true or false';
  if (form.type !== 'number' && form.type !== 'integer') return null;
  const isWhole = form.type === 'integer';
  if ((isWhole ? Number.isSafeInteger(value) : Number.isFinite(value)) && isWithin(form, value as number)) return null;
  return `${isWhole ? 'an integer' : 'a finite number'}${rangeWords(form)}`;
}

function listUnfitness({ minItems = 0, maxItems = Infinity }: ListLimits, value: unknown): string | null {
  if (!Array.isArray(value)) return 'a list';
  if (value.length < minItems) return `a list of at least ${minItems} items`;
  return value.length > maxItems ? `a list of at most ${maxItems} items` : null;
}

function isWithin(form: NumberLimits, value: number): boolean {
  const { minimum = -Infinity, exclusiveMinimum = -Infinity, maximum = Infinity, exclusiveMaximum = Infinity } = form;
  return value >= minimum && value > exclusiveMinimum && value <= maximum && value < exclusiveMaximum;
}

function rangeWords({ minimum, exclusiveMinimum, maximum, exclusiveMaximum }: NumberLimits): string {
  const low = minimum ?? exclusiveMinimum;
  const high = maximum ?? exclusiveMaximum;
  const isLowIn = minimum !== undefined;
  const isHighIn = maximum !== undefined;
  if (low !== undefined && high !== undefined)
    return ` in ${isLowIn ? '[' : '('}${low}, ${high}${isHighIn ? ']' : ')'}`;
  if (low !== undefined) return ` ${isLowIn ? '>=' : '>'} ${low}`;
  return high === undefined ? '' : ` ${isHighIn ? '<=' : '<'} ${high}`;
}
