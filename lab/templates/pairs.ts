import { readFile } from 'node:fs/promises';

import { parsePythonValues, type RenderOptions, type TemplateMessage } from '@trainyard/tokenizer';

/** A conversation as a client sends it. */
export interface Conversation {
  readonly name: string;
  readonly messages: readonly TemplateMessage[];
  readonly options: RenderOptions;
  /** JSON text of the request. */
  readonly requestText: string;
}

/** A template with the texts that Python renders of the conversations. */
export interface TemplateCase {
  readonly name: string;
  readonly source: string;
  /** Per conversation: 12 hex digits of the SHA-256 of the text; null if Python fails or refuses. */
  readonly digests: readonly (string | null)[];
}

export interface Pairs {
  readonly templates: readonly TemplateCase[];
  readonly conversations: readonly Conversation[];
}

export interface Comparison {
  readonly counts: string;
  readonly faults: readonly { template: string; conversation: string; fault: string }[];
}

/** @throws {Error} if templates and digests do not belong together */
export async function readPairs(paths: { templates: string; conversations: string; digests: string }): Promise<Pairs> {
  const sources = JSON.parse(await readFile(paths.templates, 'utf8')) as Record<string, string>;
  const { digests } = JSON.parse(await readFile(paths.digests, 'utf8')) as {
    digests: Record<string, (string | null)[]>;
  };
  const conversations = (await readFile(paths.conversations, 'utf8')).split('\n').filter((line) => line.length > 1);
  const missing = Object.keys(digests).filter((name) => sources[name] === undefined);
  if (missing.length > 0)
    throw new Error(`The archives lack ${missing.join(', ')}. Delete .cache/templates and try again.`);
  return {
    templates: Object.entries(digests).map(([name, list]) => ({ name, source: sources[name]!, digests: list })),
    conversations: conversations.map(toConversation),
  };
}

/** @param line `{"name": …, "request": {…}}`, with a comma or without */
function toConversation(line: string): Conversation {
  const text = line.replace(/,$/, '');
  const { name, request } = JSON.parse(text) as { name: string; request: { messages: TemplateMessage[] } };
  const requestText = text.slice(text.indexOf('"request": ') + '"request": '.length, -1);
  const read = parsePythonValues(requestText) as Record<string, unknown>;
  const { tools, documents, add_generation_prompt: addGenerationPrompt, chat_template_kwargs: variables } = read;
  return {
    name,
    messages: request.messages,
    options: {
      tools: (tools as unknown[] | undefined) ?? null,
      addGenerationPrompt: addGenerationPrompt !== false,
      templateVariables: { ...(variables as object | undefined), ...(documents === undefined ? {} : { documents }) },
    },
    requestText,
  };
}
