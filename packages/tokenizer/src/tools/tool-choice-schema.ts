import { isDeepStrictEqual } from 'node:util';
import { briefly } from '@trainyard/protocol/fields';
import { checkNestingDepth } from '../contract/nesting-depth.ts';
import { TokenizerError } from '../contract/tokenizer-error.ts';
import type { ToolDescription } from '../contract/tool-description.ts';
import { withReferences } from './schema-references.ts';

type JsonSchema = Readonly<Record<string, unknown>>;

/** A forced tool choice: some calls, or one of a certain tool. */
export type ForcedToolChoice = 'required' | { name: string };

const NO_ARGUMENTS: JsonSchema = { type: 'object', properties: {} };
// Both spellings: references such as `#/$defs/x` are from the root of the schema, so what they name must stand there.
const DEFINITIONS = ['$defs', 'definitions'] as const;

/**
 * The JSON schema a reply is held to when the request's `tool_choice` forces calls.
 *
 * `required`: a list, not empty, of `{"name": …, "parameters": …}`, one alternative a tool, for the reply format `json_array`; definitions
 * inside the tools' schemas move to the top, and references to other places follow their schema to where it is now. A name: the parameters of that tool alone, for the reply format `named`.
 *
 * @param options `parallelToolCalls: false` allows one call only. Default: true
 * @throws {TokenizerError} `tokenizer.tools_malformed` when there is no such tool, or two tools define one name differently;
 *   `tokenizer.unsupported_content` when they are nested too deep
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
    return tool.function.parameters ?? NO_ARGUMENTS;
  }
  if (tools.length === 0)
    throw new TokenizerError('tokenizer.tools_malformed', 'tool_choice requires a call; tools is empty');
  const hoisted = new Map<string, Definitions>();
  const alternatives = tools.map(({ function: { name, parameters } }, index) => {
    const own = rebased(parameters ?? NO_ARGUMENTS, `#/items/anyOf/${index}/properties/parameters`);
    for (const keyword of DEFINITIONS) {
      const moved = own[keyword];
      if (typeof moved !== 'object' || moved === null) continue;
      delete own[keyword];
      const definitions = hoisted.get(keyword) ?? new Map();
      hoisted.set(keyword, definitions);
      for (const [key, schema] of Object.entries(moved)) define(definitions, key, { schema, toolName: name });
    }
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
    ...Object.fromEntries(Array.from(hoisted, ([keyword, definitions]) => [keyword, schemasOf(definitions)])),
  };
}

/** A copy whose references to its own root, but for those to definitions, go to `root`. */
function rebased(parameters: JsonSchema, root: string): Record<string, unknown> {
  checkNestingDepth(parameters);
  const moves = (reference: string) =>
    /^#(?:$|\/)/.test(reference) && !DEFINITIONS.some((keyword) => reference.startsWith(`#/${keyword}/`));
  return withReferences(parameters, (reference) =>
    moves(reference) ? root + reference.slice(1) : reference,
  ) as Record<string, unknown>;
}

/** By the name they are referred to. */
type Definitions = Map<string, { schema: unknown; toolName: string }>;

function define(definitions: Definitions, key: string, definition: { schema: unknown; toolName: string }): void {
  const known = definitions.get(key);
  if (known !== undefined && !isDeepStrictEqual(known.schema, definition.schema)) {
    const message = `the tools ${briefly(known.toolName)} and ${briefly(definition.toolName)} define ${briefly(JSON.stringify(key))} differently: give one of the two definitions another name`;
    throw new TokenizerError('tokenizer.tools_malformed', message);
  }
  definitions.set(key, definition);
}

function schemasOf(definitions: Definitions): JsonSchema {
  return Object.fromEntries(Array.from(definitions, ([key, { schema }]) => [key, schema]));
}
