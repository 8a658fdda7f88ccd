/**
 * Real engine, tokenizer, templates and constraints over a model that is a function, for tests of higher
 * packages.
 */
import type { SchedulingPolicy, TokenSubmission } from '@trainyard/backend';
import { type EngineLimits, TokenEngine, type TokenEngineParts } from '@trainyard/engine';
import { EmbeddedTokenBackend, ScriptedRunner } from '@trainyard/engine/testing';
import type { Tokenizer } from '@trainyard/tokenizer';
import { BackendTokens } from '../backend-tokens.ts';
import type { EngineEvent, GenerateRequest } from '../contract/generate-request.ts';
import type { TokenizerFacts } from '../open-text-half.ts';
import type { TextCodec } from '../prompt/text-codec.ts';
import { TextEngine } from '../text-engine.ts';
import { asGuest, type Guest } from './guests.ts';
import { openScriptedText, type ScriptedTextOptions } from './scripted-text.ts';

/** Fills `row`, `[V]`, with the logits of the next token. Must depend only on its arguments. */
export type ScriptedModel = (context: ScriptedContext, row: Float32Array) => void;

export interface ScriptedContext {
  readonly promptIds: readonly number[];
  readonly replyIds: readonly number[];
  readonly adapterPath: string | null;
}

export interface ScriptedEngineOptions extends ScriptedTextOptions {
  /** Default: all tokens are equally likely. */
  readonly model?: ScriptedModel;
  /** Default `priority`. */
  readonly policy?: SchedulingPolicy;
  /** Default `maxChoices` 1024. */
  readonly limits?: Partial<EngineLimits>;
  /** Back end role of the engine. Default null: text steps it. */
  readonly guest?: Guest | null;
}

/** A whole engine, without weights. */
export interface ScriptedEngine {
  readonly engine: TextEngine;
  readonly codec: TextCodec;
  readonly model: { readonly contextLength: number; readonly vocabSize: number; readonly tokenizer: TokenizerFacts };
  close(): void;
  /** Sets the model that answers from the next step on. */
  setModel(model: ScriptedModel): void;
  /** Writes a text after every prompt and ends; `text` may depend on the prompt's text. */
  setReply(text: string | ((prompt: string) => string)): void;
  submit(request: GenerateRequest, emit: (event: EngineEvent) => void): void;
  readonly tokenizer: Tokenizer;
  readonly runner: ScriptedRunner;
}

export async function openScriptedEngine(options: ScriptedEngineOptions = {}): Promise<ScriptedEngine> {
  const { contextLength = 4096, policy = 'priority', limits = {}, guest = null } = options;
  const text = await openScriptedText(options);
  const { tokenizer } = text.prompt;
  const prompts = new KnownPrompts();
  let model: ScriptedModel = options.model ?? ((_context, row) => void row.fill(0));
  const runner = new ScriptedRunner({
    vocabSize: tokenizer.vocabSize,
    contextLength,
    capacityTokens: 4 * contextLength,
    logits: (tokens, adapterPath, row) => {
      const promptIds = prompts.modelStartOf(tokens);
      model({ promptIds, replyIds: tokens.slice(promptIds.length), adapterPath }, row);
    },
  });
  const tokens = new ObservedEngine(prompts, {
    runner,
    ends: tokenizer,
    texts: tokenizer,
    limits: { maxChoices: 1024, ...limits },
    leavesCore: () => text.constraints.isCompiling,
  });
  const backend =
    guest && (await asGuest(guest, new EmbeddedTokenBackend({ modelId: 'scripted', engine: tokens }), text));
  const engine = new TextEngine({
    ...text.prompt,
    tokens: backend === null ? tokens : new BackendTokens(backend, tokenizer),
    constraints: text.constraints,
    policy,
  });
  return {
    engine,
    model: { contextLength, vocabSize: tokenizer.vocabSize, tokenizer: text.facts },
    codec: text.codec,
    tokenizer,
    runner,
    setModel: (next) => void (model = next),
    setReply: (text) => {
      const replies = new WeakMap<readonly number[], Int32Array>();
      const replyTo = (promptIds: readonly number[]) =>
        tokenizer.encodeWithSpecial(typeof text === 'string' ? text : text(tokenizer.decode(promptIds)));
      model = ({ promptIds, replyIds }, row) => {
        const ids = replies.get(promptIds) ?? replyTo(promptIds);
        replies.set(promptIds, ids);
        row.fill(0);
        row[ids[replyIds.length] ?? tokenizer.eosTokenId] = 50;
      };
    },
    submit: (request, emit) => engine.submit(request, emit),
    close: () => {
      engine.close();
      void backend?.close();
      tokens.close();
      text.close();
    },
  };
}

/** Engine that records the ends of prompts for the model. */
class ObservedEngine extends TokenEngine {
  readonly #prompts: KnownPrompts;

  constructor(prompts: KnownPrompts, parts: TokenEngineParts) {
    super(parts);
    this.#prompts = prompts;
  }

  override submit(submission: TokenSubmission): void {
    this.#prompts.add(submission.promptIds);
    super.submit(submission);
  }
}

/**
 * Ends of prompts, because the model receives only tokens. Every prompt is added before its first token is
 * computed.
 */
class KnownPrompts {
  readonly #prompts = new Map<string, readonly number[]>();

  add(promptIds: readonly number[]): void {
    this.#prompts.set(promptIds.join(), promptIds);
  }

  /** The longest known prompt that `tokens` start with. */
  modelStartOf(tokens: readonly number[]): readonly number[] {
    const fitting = [...this.#prompts.values()].filter(
      (prompt) => prompt.length <= tokens.length && prompt.every((id, at) => tokens[at] === id),
    );
    return fitting.sort((a, b) => b.length - a.length)[0] ?? [];
  }
}
