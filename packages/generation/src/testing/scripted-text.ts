/** Text half of a model whose tokens are bytes, for tests. */
import { ChatTemplate, Tokenizer } from '@trainyard/tokenizer';
import { ByteVocabulary } from '@trainyard/tokenizer/testing';
import { type TextHalf, toTextHalf } from '../open-text-half.ts';
import { requestTemplates } from '../prompt/request-templates.ts';
import { openConstraints } from '../reply/open-constraints.ts';

const TURNS = `{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\\n' + message.content }}
{%- for call in message.tool_calls or [] -%}
{{ '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' }}
{%- endfor -%}
{{ '<|im_end|>\\n' }}
{%- endfor -%}`;
const TOOLS = `{%- if tools -%}{{ '<|im_start|>system\\n<tools>' + (tools | tojson) + '</tools>' }}
{{- 'Answer with <tool_call>{"name": <name>, "arguments": <arguments>}</tool_call><|im_end|>\\n' }}{%- endif -%}`;
const DOCUMENTS = `{%- for document in documents or [] -%}{{ '<document>' + (document | tojson) + '</document>\\n' }}{%- endfor -%}`;
const OPENING = `{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}`;

export const SCRIPTED_TEMPLATES = {
  /** Supports messages and documents. */
  plain: `${DOCUMENTS}${TURNS}${OPENING}`,
  /** Also tools, in the format of Hermes and Qwen. */
  tools: `${TOOLS}${DOCUMENTS}${TURNS}${OPENING}`,
  /** Also reasoning between think tags; `enable_thinking` false closes them in the prompt. */
  thinking: `${TOOLS}${DOCUMENTS}${TURNS}${OPENING}{%- if enable_thinking is defined and enable_thinking is false -%}{{ '<think></think>' }}{%- endif -%}`,
} as const;

export interface ScriptedTextOptions {
  /** Default `plain`; a Jinja source, or null for a model without a template. */
  readonly template?: keyof typeof SCRIPTED_TEMPLATES | (string & {}) | null;
  /** Default 4096. */
  readonly contextLength?: number;
  /** Default true: runs templates of requests, in separate child processes. */
  readonly runsRequestTemplates?: boolean;
}

/**
 * Opens a text half with one token per byte, then `<|endoftext|>` 256, `<|im_start|>` 257, `<|im_end|>` 258
 * (which ends replies), `<think>` 259, `</think>` 260.
 */
export async function openScriptedText(options: ScriptedTextOptions = {}): Promise<TextHalf> {
  const { contextLength = 4096, template: named = 'plain', runsRequestTemplates = true } = options;
  const vocabulary = new ByteVocabulary({ userDefinedTokens: ['<think>', '</think>'], contextLength });
  const tokenizer = new Tokenizer(vocabulary);
  const source = named === null ? null : Object.hasOwn(SCRIPTED_TEMPLATES, named) ? templateOf(named) : named;
  const template = source === null ? null : new ChatTemplate(tokenizer, source);
  const borders = { before: [vocabulary.idOf('<|endoftext|>')], after: [] };
  const constraints = openConstraints(vocabulary, tokenizer);
  const templateSandbox = runsRequestTemplates ? requestTemplates(tokenizer, { allowsControlTokens: false }) : null;
  return toTextHalf(
    { tokenizer, template, templateSandbox, longTexts: null, borders, toolFormat: null },
    constraints,
    source,
  );
}

function templateOf(name: string): string {
  return SCRIPTED_TEMPLATES[name as keyof typeof SCRIPTED_TEMPLATES];
}
