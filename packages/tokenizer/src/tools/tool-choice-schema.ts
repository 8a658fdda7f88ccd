import { isDeepStrictEqual } from 'node:util';
import { briefly } from '@trainyard/protocol/fields';
import { checkNestingDepth } from '../contract/nesting-depth.ts';
import { TokenizerError } from '../contract/tokenizer-error.ts';
import type { ToolDescription } from '../contract/tool-description.ts';
import { withReferences } from './schema-references.ts';

type JsonSchema = Readonly<Record<string, unknown>>;

/** Some calls, or one of a certain tool. */
export type ForcedToolChoice = 'required' | { name: string };

const NO_ARGUMENTS: JsonSchema = { type: 'object', properties: {} };
// Both spellings: references such as `#/$defs/x` start at the root of the schema, so definitions must be there.
const DEFINITIONS = ['$defs', 'definitions'] as const;

/**
 * JSON schema for a reply whose `tool_choice` forces calls.
 *
 * - `required`: a nonempty list of `{"name": …, "parameters": …}`, for the reply format `json_array`.
 *   Definitions in the tools' schemas move to the top, and references to other places follow their schema.
 * - A name: only that tool's parameters, for the reply format `named`.
 *
 * @param options `parallelToolCalls: false` allows only one call. Default: true
 * @throws {TokenizerError} `tokenizer.tools_malformed` if there is no such tool, or one takes no object;
 * `tokenizer.unsupported_content` if they are nested too deep
 */
export function toolChoiceSchema(
  tools: readonly ToolDescription[],
  choice: ForcedToolChoice,
  options: { parallelToolCalls?: boolean } = {},
): JsonSchema {
  if (choice !== 'required') {
    const tool = tools.find((candidate) => candidate.function.name === choice.name);
    if (tool === undefined) {
      const known = tools.map((candidate) => candidate.function.name).join(', ');
      throw new TokenizerError(
        'tokenizer.tools_malformed',
        `tool_choice names ${briefly(JSON.stringify(choice.name))}; tools has ${briefly(known) || 'none'}`,
      );
    }
    return argumentsSchema(tool);
  }
  if (tools.length === 0)
    throw new TokenizerError('tokenizer.tools_malformed', 'tool_choice requires a call; tools is empty');
  const hoisted = new HoistedDefinitions();
  const alternatives = tools.map((tool, index) => {
    const { name } = tool.function;
    const parameters = argumentsSchema(tool);
    checkNestingDepth(parameters);
    const prefix = hoisted.prefixFor(parameters, index);
    const own = rebased(parameters, { root: `/items/anyOf/${index}/properties/parameters`, prefix });
    hoisted.take(own, prefix);
    return {
      type: 'object',
      properties: { name: { type: 'string', enum: [name] }, parameters: own },
      required: ['name', 'parameters'],
    };
  });
  return {
    type: 'array',
    minItems: 1,
    ...(options.parallelToolCalls === false ? { maxItems: 1 } : {}),
    items: { type: 'object', anyOf: alternatives },
    ...hoisted.schemas(),
  };
}

/** @throws {TokenizerError} `tokenizer.tools_malformed` if the schema allows no object */
export function argumentsSchema({ function: { name, parameters } }: ToolDescription): JsonSchema {
  if (parameters === undefined || parameters === null) return NO_ARGUMENTS;
  const { type } = parameters;
  if (type === 'object') return parameters;
  if (type === undefined || (Array.isArray(type) && type.includes('object'))) return { ...parameters, type: 'object' };
  throw new TokenizerError(
    'tokenizer.tools_malformed',
    `the parameters of the tool ${briefly(JSON.stringify(name))} must be of type "object", got ${briefly(JSON.stringify(type))}`,
  );
}

/**
 * Copies a schema so that references to its root lead to `root`, and definitions to the top, under prefixed
 * names.
 */
function rebased(parameters: JsonSchema, { root, prefix }: { root: string; prefix: string }): Record<string, unknown> {
  return withReferences(parameters, (pointer) => {
    const keyword = DEFINITIONS.find((candidate) => pointer.startsWith(`/${candidate}/`));
    return keyword === undefined ? root + pointer : `/${keyword}/${prefix}${pointer.slice(keyword.length + 2)}`;
  });
}

class HoistedDefinitions {
  /** The original definitions, by keyword and name. */
  readonly #sent = new Map<string, unknown>();
  readonly #schemas = new Map<string, Map<string, unknown>>();

  /** Prefix that avoids conflicts: empty, unless two tools define one name differently. */
  prefixFor(parameters: JsonSchema, index: number): string {
    const sent = definitionsOf(parameters);
    const isTaken = (place: string, schema: unknown) =>
      this.#sent.has(place) && !isDeepStrictEqual(this.#sent.get(place), schema);
    let prefix = '';
    while (sent.some(([keyword, key, schema]) => isTaken(`${keyword}/${prefix}${key}`, schema))) prefix += `${index}.`;
    for (const [keyword, key, schema] of sent) this.#sent.set(`${keyword}/${prefix}${key}`, schema);
    return prefix;
  }

  /** @param schema loses its definitions */
  take(schema: Record<string, unknown>, prefix: string): void {
    for (const [keyword, key, definition] of definitionsOf(schema)) {
      const definitions = this.#schemas.get(keyword) ?? new Map<string, unknown>();
      this.#schemas.set(keyword, definitions.set(prefix + key, definition));
    }
    for (const keyword of DEFINITIONS) if (isObject(schema[keyword])) delete schema[keyword];
  }

  schemas(): JsonSchema {
    return Object.fromEntries(
      Array.from(this.#schemas, ([keyword, schemas]) => [keyword, Object.fromEntries(schemas)]),
    );
  }
}

function definitionsOf(schema: JsonSchema): [keyword: string, key: string, schema: unknown][] {
  return DEFINITIONS.flatMap((keyword) => {
    const definitions = schema[keyword];
    return isObject(definitions)
      ? Object.entries(definitions).map(([key, value]): [string, string, unknown] => [keyword, key, value])
      : [];
  });
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
