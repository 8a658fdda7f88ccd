import { type ChatCompletionRequest, quoting, type ResponsesRequest, type ResponseTool } from '@trainyard/protocol';

import { isObject } from '../../../seams/json/is-object.ts';
import { refuseOtherCallers } from '../shared/allowed-callers.ts';
import { conflict, invalidAt, unsupported } from '../shared/conflict.ts';
import { refuseOtherFields } from '../shared/refuse-other-fields.ts';

type ChatTool = NonNullable<ChatCompletionRequest['tools']>[number];

/** A tool as its client defined it; the model sees a function of a chat. */
export interface ClientTool {
  /** `custom`: its input is a text. */
  readonly kind: 'function' | 'custom';
  readonly name: string;
  /** Null = none. */
  readonly namespace: string | null;
}

interface NamedTool extends ClientTool {
  readonly chat: ChatTool;
}

const NO_TOOLS = 'this service runs no tools';

export function chatName({ name, namespace }: Pick<ClientTool, 'name' | 'namespace'>): string {
  return namespace === null ? name : `${namespace}__${name}`;
}

/**
 * Tools of a request and its tool choice, in the form of a chat.
 * @throws {RequestError} `request.unsupported`, `request.conflict`, `request.invalid`, with fields of the
 * request
 */
export function toTools({ tools, tool_choice: choice = null }: ResponsesRequest): Partial<ChatCompletionRequest> {
  const all = readTools(tools ?? []);
  const chatTools = all.map(({ chat }) => chat);
  // The form's default has no effect without tools. A chat has no such default and refuses it, as in vLLM.
  const isUnasked = choice === null || (choice === 'auto' && all.length === 0);
  if (isUnasked || typeof choice === 'string')
    return { ...(all.length === 0 ? {} : { tools: chatTools }), ...(isUnasked ? {} : { tool_choice: choice }) };
  if (choice.type === 'function' || choice.type === 'custom') {
    refuseOtherFields(choice, ['type', 'name', 'namespace'], 'tool_choice');
    const { name, namespace = null } = choice;
    if (name === undefined) throw invalidAt('tool_choice.name', 'Field required', 'missing');
    return { tools: chatTools, tool_choice: { type: 'function', function: { name: chatName({ name, namespace }) } } };
  }
  refuseOtherFields(choice, ['type', 'mode', 'tools'], 'tool_choice');
  // Shows only these tools to the model, so that it can call no others.
  const names = new Set((choice.tools ?? []).map((tool) => tool['name']));
  const allowed = all.filter(({ name }) => names.has(name));
  if (new Set(allowed.map(({ name }) => name)).size !== names.size || names.size === 0)
    throw conflict('tool_choice.tools', '`tool_choice.tools` must name functions in `tools`');
  return { tools: allowed.map(({ chat }) => chat), tool_choice: choice.mode ?? 'auto' };
}

/** Finds the tool of a call by the call's name. @param tools passed {@link toTools} */
export function clientTools({ tools }: ResponsesRequest): (chatName: string) => ClientTool {
  // Read at the first call, because most replies have none.
  let known: ReadonlyMap<string, ClientTool> | null = null;
  return (name) => {
    known ??= new Map(readTools(tools ?? []).map((tool) => [tool.chat.function.name, tool]));
    return known.get(name) ?? { kind: 'function', name, namespace: null };
  };
}

function readTools(tools: readonly ResponseTool[]): NamedTool[] {
  const all = tools.flatMap((tool, index) => readTool(tool, `tools.${index}`));
  const names = new Set<string>();
  for (const { chat, namespace } of all) {
    const { name } = chat.function;
    if (namespace !== null && names.has(name))
      throw conflict('tools', quoting`two tools would have the name ${name} for the model. Rename one of them`);
    names.add(name);
  }
  return all;
}

function readTool(tool: ResponseTool, place: string): NamedTool[] {
  if (tool.type !== 'namespace') return [readMember(tool, place, null)];
  refuseOtherFields(tool, ['type', 'name', 'description', 'tools'], place);
  const namespace = nameOf(tool, place);
  // The description of a namespace is only shown at the start of each of its tools.
  const about = tool.description ? `${tool.description}\n` : '';
  return (tool.tools ?? []).map((member, index) => {
    if (!isObject(member) || typeof member['type'] !== 'string')
      throw invalidAt(`${place}.tools.${index}.type`, 'Field required', 'missing');
    const named = readMember(member as ResponseTool, `${place}.tools.${index}`, namespace);
    const { description = null } = named.chat.function;
    const text = description === null && about === '' ? null : `${about}${description ?? ''}`;
    return { ...named, chat: { ...named.chat, function: { ...named.chat.function, description: text } } };
  });
}

function readMember(tool: ResponseTool, place: string, namespace: string | null): NamedTool {
  const { type, description = null } = tool;
  if (type !== 'function' && type !== 'custom')
    throw unsupported(
      `${place}.type`,
      quoting`${NO_TOOLS}. Use functions or custom tools of the client, got ${JSON.stringify(type)}`,
    );
  refuseOtherFields(tool, type === 'function' ? FUNCTION_FIELDS : CUSTOM_FIELDS, place);
  refuseOtherCallers(tool.allowed_callers ?? null, place);
  for (const name of ['defer_loading', 'async'] as const)
    if (tool[name] === true)
      throw unsupported(`${place}.${name}`, 'the model sees all tools from the start and waits for each call');
  const name = nameOf(tool, place);
  const known = { kind: type, name, namespace } as const;
  const asFunction = { name: chatName(known), description };
  if (type === 'custom') {
    const { format = null } = tool;
    if (format !== null && format.type !== 'text')
      throw unsupported(`${place}.format`, quoting`only text is supported, got ${JSON.stringify(format.type)}`);
    return { ...known, chat: { type: 'function', function: { ...asFunction, parameters: INPUT } } };
  }
  const { parameters = null, strict = null } = tool;
  return { ...known, chat: { type: 'function', function: { ...asFunction, parameters, strict } } };
}

const FUNCTION_FIELDS = [
  'type',
  'name',
  'description',
  'parameters',
  'strict',
  'allowed_callers',
  'defer_loading',
  'async',
  // Describes the tool's result; has no effect.
  'output_schema',
];
const CUSTOM_FIELDS = ['type', 'name', 'description', 'format', 'allowed_callers', 'defer_loading', 'async'];

/** Parameters of a custom tool for a model, which only has functions. */
const INPUT = {
  type: 'object',
  properties: { input: { type: 'string' } },
  required: ['input'],
  additionalProperties: false,
};

export function toArguments(input: string): string {
  return JSON.stringify({ input });
}

/** Input of a custom tool in its call's arguments; all of them if the model wrote other members. */
export function toInput(written: string): string {
  try {
    const value: unknown = JSON.parse(written);
    return isObject(value) && typeof value['input'] === 'string' ? value['input'] : written;
  } catch {
    return written;
  }
}

function nameOf({ name }: ResponseTool, place: string): string {
  if (name === undefined) throw invalidAt(`${place}.name`, 'Field required', 'missing');
  return name;
}
