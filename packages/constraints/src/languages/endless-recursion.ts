type Schema = Readonly<Record<string, unknown>>;

/** One bit per type of JSON values. */
type Types = number;
const ARRAY: Types = 16;
const OBJECT: Types = 32;
const BITS: Readonly<Record<string, Types>> = {
  null: 1,
  boolean: 2,
  string: 4,
  number: 8,
  integer: 8,
  array: ARRAY,
  object: OBJECT,
};
const ANY: Types = 63;
/** Most schemas combined; beyond it a recursion may be missed. */
const MAX_PARTS = 16;

/**
 * Finds a subschema that no finite text satisfies because it needs itself: an object that requires itself, a
 * list of at least one of itself.
 *
 * The types with finite values are a least fixpoint, starting from none. A contradictory schema has none in the
 * greatest fixpoint either, and is not reported.
 *
 * @param schemas all reachable ones
 * @param targetOf target of a schema's `$ref`
 */
export function findEndless(schemas: Iterable<Schema>, targetOf: (schema: Schema) => unknown): Schema | null {
  const all = [...schemas];
  const least = new TypesOfValues(all, targetOf, 0);
  const suspects = all.filter((schema) => least.of(schema) === 0);
  if (suspects.length === 0) return null;
  const greatest = new TypesOfValues(all, targetOf, ANY);
  return suspects.find((schema) => greatest.of(schema) !== 0) ?? null;
}

/** Fixpoint of the types with values. */
class TypesOfValues {
  readonly #targetOf: (schema: Schema) => unknown;
  readonly #initial: Types;
  readonly #types = new Map<Schema, Types>();
  /** Schemas computed from each schema. */
  readonly #readers = new Map<Schema, Set<Schema>>();
  #reader: Schema | null = null;
  readonly #all: ReadonlySet<Schema>;

  constructor(schemas: readonly Schema[], targetOf: (schema: Schema) => unknown, initial: Types) {
    this.#all = new Set(schemas);
    this.#targetOf = targetOf;
    this.#initial = initial;
    this.#settle();
  }

  of(schema: unknown): Types {
    if (!isObject(schema)) return schema === false ? 0 : ANY;
    if (!this.#all.has(schema)) return ANY;
    if (this.#reader !== null) {
      let readers = this.#readers.get(schema);
      if (readers === undefined) this.#readers.set(schema, (readers = new Set()));
      readers.add(this.#reader);
    }
    return this.#types.get(schema) ?? this.#initial;
  }

  #settle(): void {
    const open = new Set(this.#all);
    for (const schema of open) {
      open.delete(schema);
      this.#reader = schema;
      const types = this.#compute(schema);
      this.#reader = null;
      if (types === this.of(schema)) continue;
      this.#types.set(schema, types);
      for (const reader of this.#readers.get(schema) ?? []) open.add(reader);
    }
  }

  #compute(schema: Schema): Types {
    const parts = this.#partsOf(schema);
    let types = this.#joint(parts);
    for (const part of parts) {
      if (part !== schema) types &= this.of(part);
      if (part['$ref'] !== undefined) types &= this.of(this.#targetOf(part));
      if (Array.isArray(part['allOf']) && part['allOf'].includes(false)) types = 0;
      for (const keyword of ['anyOf', 'oneOf'] as const) {
        const options = part[keyword];
        if (!Array.isArray(options)) continue;
        const either = options.reduce<Types>((sum, option) => sum | this.#option(option, parts), 0);
        types &= either;
      }
    }
    return types;
  }

  #option(option: unknown, parts: readonly Schema[]): Types {
    if (!isObject(option)) return this.of(option);
    return this.of(option) & this.#joint([...parts, ...this.#partsOf(option)]);
  }

  /** The schema and those that apply together with it; of a long chain of references only the first. */
  #partsOf(schema: Schema): Schema[] {
    const parts = new Set([schema]);
    for (const part of parts) {
      if (parts.size > MAX_PARTS) break;
      const target = part['$ref'] === undefined ? undefined : this.#targetOf(part);
      const others = Array.isArray(part['allOf']) ? (part['allOf'] as unknown[]) : [];
      for (const other of [target, ...others]) if (isObject(other)) parts.add(other);
    }
    return [...parts];
  }

  #joint(parts: readonly Schema[]): Types {
    let types = parts.reduce((left, part) => left & ownTypes(part), ANY);
    if (types & ARRAY && !this.#hasItems(parts)) types &= ~ARRAY;
    if (types & OBJECT && !this.#hasProperties(parts)) types &= ~OBJECT;
    return types;
  }

  #hasItems(parts: readonly Schema[]): boolean {
    const least = greatestOf(parts, 'minItems');
    return parts.every((part) => {
      const { prefixItems, items, additionalItems } = part;
      const first = (Array.isArray(prefixItems) ? prefixItems : Array.isArray(items) ? items : []) as unknown[];
      const rest = Array.isArray(items) ? additionalItems : items;
      return (
        first.slice(0, least).every((item) => this.of(item) !== 0) && (least <= first.length || this.of(rest) !== 0)
      );
    });
  }

  #hasProperties(parts: readonly Schema[]): boolean {
    const required = new Set(
      parts.flatMap((part) => (Array.isArray(part['required']) ? (part['required'] as unknown[]) : [])),
    );
    for (const name of required)
      if (typeof name === 'string' && !parts.every((part) => this.#allows(part, name))) return false;
    const missing = greatestOf(parts, 'minProperties') - required.size;
    if (missing <= 0 || parts.every((part) => this.#hasFreeKeys(part))) return true;
    const names = new Set(
      parts.flatMap((part) => (isObject(part['properties']) ? Object.keys(part['properties']) : [])),
    );
    const free = [...names].filter((name) => !required.has(name) && parts.every((part) => this.#allows(part, name)));
    return free.length >= missing;
  }

  /** An undeclared name may match any of the patterns; they are not run, because that may take long. */
  #allows(part: Schema, name: string): boolean {
    const { properties, patternProperties } = part;
    if (isObject(properties) && Object.hasOwn(properties, name)) return this.of(properties[name]) !== 0;
    const patterns = isObject(patternProperties) ? Object.values(patternProperties) : [];
    return [...patterns, part['additionalProperties']].some((schema) => this.of(schema) !== 0);
  }

  #hasFreeKeys({ patternProperties, additionalProperties }: Schema): boolean {
    const patterns = isObject(patternProperties) ? Object.values(patternProperties) : [];
    return [...patterns, additionalProperties].some((schema) => this.of(schema) !== 0);
  }
}

function ownTypes({ type, enum: values, const: value }: Schema): Types {
  let types = ANY;
  if (type !== undefined) types &= bitsOf(Array.isArray(type) ? type : [type]);
  if (Array.isArray(values)) types &= values.reduce<Types>((sum, one) => sum | typeOf(one), 0);
  if (value !== undefined) types &= typeOf(value);
  return types;
}

function bitsOf(names: readonly unknown[]): Types {
  return names.reduce<Types>((sum, name) => sum | (typeof name === 'string' ? (BITS[name] ?? 0) : 0), 0);
}

function typeOf(value: unknown): Types {
  if (value === null) return BITS['null']!;
  return Array.isArray(value) ? ARRAY : (BITS[typeof value] ?? ANY);
}

function greatestOf(parts: readonly Schema[], keyword: string): number {
  return parts.reduce((most, part) => {
    const value = part[keyword];
    return typeof value === 'number' ? Math.max(most, value) : most;
  }, 0);
}

function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
