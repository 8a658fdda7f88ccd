/** Input kind of a field. */
export type FieldInput =
  | {
      readonly kind: 'number';
      readonly isInteger: boolean;
      readonly minimum: number | null;
      readonly maximum: number | null;
    }
  | { readonly kind: 'boolean' }
  | { readonly kind: 'choice'; readonly options: readonly string[] }
  | { readonly kind: 'text' }
  /** Lists and objects, as JSON. */
  | { readonly kind: 'json' };

/** One field of a chat request, as the service describes it. */
export interface ChatField {
  readonly name: string;
  readonly input: FieldInput;
  readonly description: string;
}

/** Fields set by the page itself. */
const OF_THE_PAGE: ReadonlySet<string> = new Set(['messages', 'model', 'stream', 'stream_options']);
/** Most used fields, in this order; the others follow in the order of the service. */
export const FIRST_FIELDS: readonly string[] = ['temperature', 'max_tokens', 'top_p', 'top_k', 'min_p', 'seed', 'stop'];

interface JsonSchema {
  readonly type?: string;
  readonly anyOf?: readonly JsonSchema[];
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly $ref?: string;
}

/**
 * All described fields of a chat request, without those that the page sets.
 *
 * @param document of `/openapi.json`
 * @throws {Error} if it describes no chat
 */
export function chatFields(document: unknown): ChatField[] {
  const { properties } = chatSchema(document);
  if (properties === undefined) throw new Error('The service describes no fields of a chat request');
  const fields = Object.entries(properties)
    .filter(([name]) => !OF_THE_PAGE.has(name))
    .map(([name, schema]) => ({ name, input: inputOf(schema), description: descriptionOf(schema) }));
  const place = ({ name }: ChatField) =>
    FIRST_FIELDS.includes(name) ? FIRST_FIELDS.indexOf(name) : FIRST_FIELDS.length;
  return fields.toSorted((first, second) => place(first) - place(second));
}

/** Parses the text of an input; empty text leaves the field out. @throws {SyntaxError} for invalid JSON */
export function fieldValue({ input, name }: ChatField, text: string): unknown {
  if (text.trim() === '') return undefined;
  if (input.kind === 'boolean') return text === 'true';
  if (input.kind === 'number') {
    const value = Number(text);
    if (!Number.isFinite(value)) throw new SyntaxError(`${name} should be a number, not ${JSON.stringify(text)}`);
    return value;
  }
  if (input.kind === 'json') return parsed(name, text);
  // Some fields take a text or a list of texts: a bracket starts a list.
  return input.kind === 'text' && text.trimStart().startsWith('[') ? parsed(name, text) : text;
}

function parsed(name: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new SyntaxError(`${name} should be JSON, such as [1, 2] or {"a": 1}`);
  }
}

function chatSchema(document: unknown): JsonSchema {
  const { paths, components } = document as {
    paths?: Record<string, { post?: { requestBody?: { content?: Record<string, { schema?: JsonSchema }> } } }>;
    components?: { schemas?: Record<string, JsonSchema> };
  };
  const schema = paths?.['/v1/chat/completions']?.post?.requestBody?.content?.['application/json']?.schema;
  if (schema === undefined) throw new Error('The service describes no chat');
  const name = schema.$ref?.split('/').at(-1);
  return name === undefined ? schema : (components?.schemas?.[name] ?? {});
}

/** The description of a field, or that of its non-null alternative. */
function descriptionOf(schema: JsonSchema): string {
  const described = [schema, ...alternatives(schema)].find(({ description }) => description !== undefined);
  return described?.description ?? '';
}

function inputOf(schema: JsonSchema): FieldInput {
  const kinds = alternatives(schema).filter(({ type }) => type !== 'null');
  const [first = {}] = kinds;
  const options = kinds.flatMap((kind) => kind.enum ?? []).filter((option) => typeof option === 'string');
  if (kinds.length === 1 && options.length > 0) return { kind: 'choice', options };
  if (kinds.every(({ type }) => type === 'boolean')) return { kind: 'boolean' };
  if (first.type === 'number' || first.type === 'integer') {
    const minimum = first.minimum ?? first.exclusiveMinimum ?? null;
    return { kind: 'number', isInteger: first.type === 'integer', minimum, maximum: first.maximum ?? null };
  }
  return first.type === 'string' ? { kind: 'text' } : { kind: 'json' };
}

/** Flattens nested alternatives. */
function alternatives(schema: JsonSchema): JsonSchema[] {
  return schema.anyOf === undefined ? [schema] : schema.anyOf.flatMap(alternatives);
}
