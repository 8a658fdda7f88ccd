/** For tests of everything above the engine: the real engine, tokenizer, templates and constraints over a model that is a function. */
import type { SchedulingPolicy } from '@trainyard/backend';
import { type EngineLimits, TokenEngine } from '@trainyard/engine';
import { ScriptedRunner } from '@trainyard/engine/testing';
import { ChatTemplate, Tokenizer } from '@trainyard/tokenizer';
import { ByteVocabulary } from '@trainyard/tokenizer/testing';
import type { EngineEvent, GenerateRequest } from '../contract/generate-request.ts';
import type { TokenizerFacts } from '../open-text-half.ts';
import { requestTemplates } from '../prompt/request-templates.ts';
import { TextCodec } from '../prompt/text-codec.ts';
import { openConstraints } from '../reply/open-constraints.ts';
import { TextEngine } from '../text-engine.ts';

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

/** Chat templates in ChatML. */
export const SCRIPTED_TEMPLATES = {
  /** Messages and documents. */
  plain: `${DOCUMENTS}${TURNS}${OPENING}`,
  /** And tools, called in the manner of Hermes and Qwen. */
  tools: `${TOOLS}${DOCUMENTS}${TURNS}${OPENING}`,
  /** And reasoning between think tags; `enable_thinking` false closes them in the prompt. */
  thinking: `${TOOLS}${DOCUMENTS}${TURNS}${OPENING}{%- if enable_thinking is defined and enable_thinking is false -%}{{ '<think></think>' }}{%- endif -%}`,
} as const;

/** Fills `row`, `[V]`, with the logits of the next token. Must depend on its arguments alone. */
export type ScriptedModel = (context: ScriptedContext, row: Float32Array) => void;

export interface ScriptedContext {
  readonly promptIds: readonly number[];
  /** The reply so far. */
  readonly replyIds: readonly number[];
  readonly adapterPath: string | null;
}

export interface ScriptedEngineOptions {
  /** Default `plain`; a Jinja source, or null for a model without a template. */
  readonly template?: keyof typeof SCRIPTED_TEMPLATES | (string & {}) | null;
  /** Default: all tokens are equally likely. */
  readonly model?: ScriptedModel;
  /** Default 4096. */
  readonly contextLength?: number;
  /** Default `priority`. */
  readonly policy?: SchedulingPolicy;
  /** Default `maxChoices` 1024. */
  readonly limits?: Partial<EngineLimits>;
  /** Default true: templates that come with requests are run, in child processes of their own. */
  readonly runsRequestTemplates?: boolean;
}

/** All of an engine, without weights. */
export interface ScriptedEngine {
  readonly engine: TextEngine;
  readonly codec: TextCodec;
  readonly model: { readonly contextLength: number; readonly vocabSize: number; readonly tokenizer: TokenizerFacts };
  close(): void;
  /** Sets the model that answers from the next step on. */
  say(model: ScriptedModel): void;
  /** Says a text after every prompt and ends; `text` may depend on the prompt's text. */
  sayText(text: string | ((prompt: string) => string)): void;
  /** As `engine.submit`, which must not be used: the model has to know where prompts end. */
  submit(request: GenerateRequest, emit: (event: EngineEvent) => void): void;
  readonly tokenizer: Tokenizer;
  readonly runner: ScriptedRunner;
}

/** One token a byte, then `<|endoftext|>` 256, `<|im_start|>` 257, `<|im_end|>` 258 (which ends replies), `<think>` 259, `</think>` 260. */
export async function openScriptedEngine(options: ScriptedEngineOptions = {}): Promise<ScriptedEngine> {
  const { contextLength = 4096, template: named = 'plain', policy = 'priority', limits = {} } = options;
  const vocabulary = new ByteVocabulary({ userDefinedTokens: ['<think>', '</think>'], contextLength });
  const tokenizer = new Tokenizer(vocabulary);
  const prompts = new KnownPrompts();
  let model: ScriptedModel = options.model ?? ((_context, row) => void row.fill(0));
  const runner = new ScriptedRunner({
    vocabSize: vocabulary.vocabSize,
    contextLength,
    capacityTokens: 4 * contextLength,
    logits: (tokens, adapterPath, row) => {
      const promptIds = prompts.modelStartOf(tokens);
      model({ promptIds, replyIds: tokens.slice(promptIds.length), adapterPath }, row);
    },
  });
  const source = named === null ? null : Object.hasOwn(SCRIPTED_TEMPLATES, named) ? templateOf(named) : named;
  const template = source === null ? null : new ChatTemplate(tokenizer, source);
  const borders = { before: [vocabulary.idOf('<|endoftext|>')], after: [] };
  const constraints = await openConstraints(vocabulary, tokenizer);
  const templateSandbox =
    options.runsRequestTemplates === false ? null : requestTemplates(tokenizer, { allowsControlTokens: false });
  const tokens = new TokenEngine({
    runner,
    ends: tokenizer,
    texts: tokenizer,
    limits: { maxChoices: 1024, ...limits },
    leavesCore: () => constraints.isCompiling,
  });
  const engine = new TextEngine({
    tokens,
    tokenizer,
    template,
    templateSandbox,
    borders,
    constraints,
    policy,
  });
  return {
    engine,
    model: {
      contextLength,
      vocabSize: vocabulary.vocabSize,
      tokenizer: {
        chatTemplate: source,
        bosTokenId: tokenizer.bosTokenId,
        eosTokenId: tokenizer.eosTokenId,
        addsBos: borders.before.length > 0,
      },
    },
    codec: new TextCodec({ tokenizer, template, templateSandbox, borders }),
    tokenizer,
    runner,
    say: (next) => void (model = next),
    sayText: (text) => {
      model = ({ promptIds, replyIds }, row) => {
        const reply = typeof text === 'string' ? text : text(tokenizer.decode(promptIds));
        const ids = tokenizer.encodeWithSpecial(reply);
        row.fill(0);
        row[ids[replyIds.length] ?? vocabulary.eosTokenId] = 50;
      };
    },
    submit: (request, emit) =>
      engine.submit(request, (event) => {
        if (event.kind === 'started') prompts.add(event.promptTokenIds);
        emit(event);
      }),
    close: () => {
      engine.close();
      templateSandbox?.close();
      constraints.close();
    },
  };
}

function templateOf(name: string): string {
  return SCRIPTED_TEMPLATES[name as keyof typeof SCRIPTED_TEMPLATES];
}

/** Where prompts end: the model is given tokens only. Every prompt is told before its first token is computed. */
class KnownPrompts {
  readonly #prompts = new Map<string, readonly number[]>();

  add(promptIds: readonly number[]): void {
    this.#prompts.set(promptIds.join(), promptIds);
  }

  /** The longest known prompt that `tokens` begin with. */
  modelStartOf(tokens: readonly number[]): readonly number[] {
    const fitting = [...this.#prompts.values()].filter(
      (prompt) => prompt.length <= tokens.length && prompt.every((id, at) => tokens[at] === id),
    );
    return fitting.sort((a, b) => b.length - a.length)[0] ?? [];
  }
}
