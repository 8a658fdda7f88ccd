/** Values of a chat as their client wrote them, where `JSON.parse` loses something: digits beyond 2^53, `1.0`, the order of keys that look like integers. */
import { type ChatPrompt, parsePythonValues } from '@trainyard/generation';
import type { ChatCompletionRequest, ChatMessage } from '@trainyard/protocol';

import { isObject } from '../json/is-object.ts';
import { toOrderedJson } from '../json/ordered-json.ts';
import { asWritten, keepSourceText, sourceTextOf } from '../json/source-texts.ts';

type Tools = ChatCompletionRequest['tools'];
type Variables = Record<string, unknown>;

/**
 * The input of a template. Training reads the same from trajectories: a rollout is trained behind the prompt that it was sampled after.
 *
 * @param variables in objects, the later of two with one name counts; null = none
 */
export function promptParts(
  { messages, tools: sent }: Pick<ChatCompletionRequest, 'messages' | 'tools'>,
  variables: readonly (object | null)[],
): Pick<ChatPrompt, 'messages' | 'tools' | 'toolsText' | 'templateVariables' | 'templateVariablesText'> {
  const tools = someTools(sent);
  const merged = mergedVariables(variables);
  return {
    messages: messages.map(withWrittenTools),
    tools,
    toolsText: toolsTextOf(tools),
    templateVariables: merged,
    templateVariablesText: sourceTextOf(merged),
  };
}

/** Some templates take tools in a message of the developer. */
function withWrittenTools(message: ChatMessage): ChatMessage {
  const text = messageToolsText((message as { tools?: unknown }).tools);
  return text === null ? message : Object.assign({}, message, { tools: text });
}

/** The tools of a message as they were written; null if the tools themselves say the same, or are no tools. */
export function messageToolsText(tools: unknown): string | null {
  return Array.isArray(tools) && tools.every(isObject) ? toolsTextOf(tools) : null;
}

/** Tools that can be called; null for none, as which agents without tools send an empty list. */
export function someTools(tools: Tools): NonNullable<Tools> | null {
  return tools?.length ? tools : null;
}

/** The tools as they were written; null if the tools themselves say the same. */
export function toolsTextOf(tools: readonly object[] | null | undefined): string | null {
  return tools && areWritten(tools) ? toOrderedJson(tools.map(writtenTool)) : null;
}

/** Whether the tools lack something of their text. */
export function areWritten(tools: readonly object[]): boolean {
  return tools.some((tool) => sourceTextOf(tool) !== null || sourceTextOf(parametersOf(tool)) !== null);
}

function writtenTool(tool: object): unknown {
  if (sourceTextOf(tool) !== null || !('function' in tool)) return asWritten(tool);
  return { ...tool, function: { ...(tool.function as object), parameters: asWritten(parametersOf(tool)) } };
}

function parametersOf(tool: object): unknown {
  const described = 'function' in tool ? tool.function : null;
  return typeof described === 'object' && described !== null && 'parameters' in described
    ? described.parameters
    : undefined;
}

/** The members of all objects: of two with one name the last counts. Their text is remembered. @param parts null = none */
export function mergedVariables(parts: readonly (object | null)[]): Variables {
  const merged = Object.assign({}, ...parts) as Variables;
  const given = parts.filter((part) => part !== null);
  if (!given.some((part) => sourceTextOf(part) !== null)) return merged;
  const members = given.flatMap((part) => {
    const inner = (sourceTextOf(part) ?? JSON.stringify(part)).trim().slice(1, -1).trim();
    return inner === '' ? [] : [inner];
  });
  keepSourceText(merged, `{${members.join(',')}}`);
  return merged;
}

/** The tools as Python reads what was written. */
export function pythonTools(tools: readonly object[] | null | undefined): readonly unknown[] | null {
  const text = toolsTextOf(tools);
  return text === null ? (tools ?? null) : (parsePythonValues(text) as unknown[]);
}

/** Variables of a template as Python reads what was written; empty for none. */
export function pythonVariables(variables: Variables | null | undefined): Variables {
  const text = sourceTextOf(variables);
  if (text === null) return variables ?? {};
  const read = parsePythonValues(text) as Variables | Map<string, unknown>;
  return read instanceof Map ? Object.fromEntries(read) : read;
}
