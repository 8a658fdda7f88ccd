/**
 * Values of a chat as their client wrote them, if `JSON.parse` loses something: digits beyond 2^53, `1.0`,
 * the order of keys that look like integers.
 */
import { type ChatPrompt, parsePythonValues } from '@trainyard/generation';
import type { ChatCompletionRequest, ChatMessage } from '@trainyard/protocol';

import { isObject } from '../json/is-object.ts';
import { toOrderedJson } from '../json/ordered-json.ts';
import { asWritten, keepSourceText, sourceTextOf } from '../json/source-texts.ts';

type Tools = ChatCompletionRequest['tools'];
type Variables = Record<string, unknown>;

/**
 * Template input. Training builds the same input from trajectories, so a rollout is trained after the prompt
 * it was sampled from.
 * @param variables later objects override earlier ones; null = none
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

/** Some templates read tools from a message of the developer. */
function withWrittenTools(message: ChatMessage): ChatMessage {
  const text = messageToolsText((message as { tools?: unknown }).tools);
  return text === null ? message : Object.assign({}, message, { tools: text });
}

/** Tools of a message as written; null if parsing lost nothing, or if they are not tools. */
export function messageToolsText(tools: unknown): string | null {
  return Array.isArray(tools) && tools.every(isObject) ? toolsTextOf(tools) : null;
}

/** Returns the tools, or null for an empty list, which some agents without tools send. */
export function someTools(tools: Tools): NonNullable<Tools> | null {
  return tools?.length ? tools : null;
}

/** Tools as written; null if parsing lost nothing. */
export function toolsTextOf(tools: readonly object[] | null | undefined): string | null {
  return tools && areWritten(tools) ? toOrderedJson(tools.map(writtenTool)) : null;
}

/** True if parsing lost part of the tools' source text. */
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

/**
 * Members of all objects; for duplicate names the last counts. Keeps their source text.
 * @param parts null = none
 */
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

export function pythonTools(tools: readonly object[] | null | undefined): readonly unknown[] | null {
  const text = toolsTextOf(tools);
  return text === null ? (tools ?? null) : (parsePythonValues(text) as unknown[]);
}

export function pythonVariables(variables: Variables | null | undefined): Variables {
  const text = sourceTextOf(variables);
  if (text === null) return variables ?? {};
  const read = parsePythonValues(text) as Variables | Map<string, unknown>;
  return read instanceof Map ? Object.fromEntries(read) : read;
}
