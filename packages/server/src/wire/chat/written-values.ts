/** Values of a chat as their client wrote them, where `JSON.parse` loses something: digits beyond 2^53, `1.0`, the order of keys that look like integers. */
import type { ChatPrompt } from '@trainyard/generation';
import type { ChatCompletionRequest } from '@trainyard/protocol';

import { toOrderedJson } from '../../json/ordered-json.ts';
import { asWritten, sourceTextOf } from '../../json/source-texts.ts';

type Tools = ChatCompletionRequest['tools'];

/**
 * The input of a template. For a model that is trained here as `JSON.parse` reads it: training reads the same from trajectories, and a rollout is rendered
 * as it will be trained.
 *
 * @param variables in objects, the later of two with one name counts; null = none
 */
export function promptParts(
  { messages, tools: sent }: Pick<ChatCompletionRequest, 'messages' | 'tools'>,
  variables: readonly (object | null)[],
  rendersAsTraining: boolean,
): Pick<ChatPrompt, 'messages' | 'tools' | 'toolsText' | 'templateVariables' | 'templateVariablesText'> {
  const tools = someTools(sent);
  const plain = { messages, tools, templateVariables: Object.assign({}, ...variables) as Record<string, unknown> };
  if (rendersAsTraining) return { ...plain, toolsText: null, templateVariablesText: null };
  return {
    ...plain,
    toolsText: toolsTextOf(tools),
    templateVariablesText: mergedText(variables),
  };
}

/** Tools that can be called; null for none, as which agents without tools send an empty list. */
export function someTools(tools: Tools): NonNullable<Tools> | null {
  return tools?.length ? tools : null;
}

/** The tools with their schemas as they were written; null where the tools themselves say the same. */
export function toolsTextOf(tools: Tools): string | null {
  if (!tools?.some((tool) => sourceTextOf(tool.function.parameters) !== null)) return null;
  const written = tools.map((tool) => ({
    ...tool,
    function: { ...tool.function, parameters: asWritten(tool.function.parameters) },
  }));
  return toOrderedJson(written);
}

/** The members of an object behind each other: of two with one name the last counts. @param parts plain or written objects, null = none */
function mergedText(parts: readonly (object | null)[]): string | null {
  if (!parts.some((part) => sourceTextOf(part) !== null)) return null;
  const members = parts.flatMap((part) => {
    const text = part === null ? '' : (sourceTextOf(part) ?? JSON.stringify(part));
    const inner = text.trim().slice(1, -1).trim();
    return inner === '' ? [] : [inner];
  });
  return `{${members.join(',')}}`;
}
