import { LlamaModel } from '@trainyard/native';
import { ChatTemplate, Tokenizer, type ToolFormat } from '@trainyard/tokenizer';
import { Engine } from './engine.ts';
import { LlamaRunner } from './runner/llama-runner.ts';
import { openConstraints } from './reply/open-constraints.ts';
import type { PromptBorders } from './prompt/prompt.ts';
import { requestTemplates } from './prompt/request-templates.ts';
import type { SchedulingPolicy } from './contract/scheduling-policy.ts';
import { servedModelPath } from './runner/served-model.ts';
import { TextCodec } from './prompt/text-codec.ts';

/** Tokens of one llama.cpp batch: more than any step plans, so that it is never the limit. */
const BATCH_TOKENS = 1024;

export interface OpenEngineOptions {
  /** GGUF file, any quantisation. */
  readonly modelPath: string;
  /**
   * `exact` serves half-precision weights, so that sampler and trainer agree to 1e-3; `strict` single-precision weights, keys and values, so that they agree to
   * 1e-5; `fast` serves the file as it is.
   */
  readonly precision: 'exact' | 'strict' | 'fast';
  /** Folder for the half-precision copy when the model's own folder cannot be written. */
  readonly cacheDirectory: string;
  readonly numThreads: number;
  /** KV cache over all sequences, tokens. */
  readonly capacityTokens: number;
  readonly maxSequences: number;
  /** Requests in flight, running ones included. */
  readonly maxRequests: number;
  /** Choices of one request. Default: as many as run side by side. */
  readonly maxChoices?: number;
  /** Default `priority`. */
  readonly policy?: SchedulingPolicy;
  /** Default true: templates that come with requests are run, in child processes of their own. */
  readonly runsRequestTemplates?: boolean;
  /** Default false: the texts of control tokens in messages stay text. */
  readonly allowsControlTokens?: boolean;
  /** How the model writes its calls of tools. Default null: as its chat template says. */
  readonly toolFormat?: ToolFormat | null;
}

export interface OpenedEngine {
  readonly engine: Engine;
  readonly model: ServedModel;
  /** Text and ids outside any generation. */
  readonly codec: TextCodec;
  close(): void;
}

export interface ServedModel {
  /** The file really loaded. */
  readonly path: string;
  readonly architecture: string;
  /** Longest sequence, prompt and reply together, tokens. */
  readonly contextLength: number;
  readonly vocabSize: number;
  readonly tokenizer: TokenizerFacts;
}

/** What a client may want to know of the tokenizer. */
export interface TokenizerFacts {
  /** The model's own; null when it has none. */
  readonly chatTemplate: string | null;
  readonly bosTokenId: number | null;
  /** Ends a reply. */
  readonly eosTokenId: number;
  /** Whether texts are tokenised with a token in front. */
  readonly addsBos: boolean;
}

/**
 * An engine on llama.cpp, with the model's own tokenizer and chat template, constraints on its tokens, and children for templates of requests.
 *
 * @throws {NativeError} when the file is missing, malformed, or no llama.cpp fits this machine
 */
export async function openEngine(options: OpenEngineOptions): Promise<OpenedEngine> {
  const model = LlamaModel.load(servedModelPath(options));
  const tokenizer = Tokenizer.fromModel(model);
  const source = model.chatTemplate;
  const { allowsControlTokens = false } = options;
  const runner = new LlamaRunner(model, {
    contextTokens: options.capacityTokens,
    maxSequences: options.maxSequences,
    batchTokens: BATCH_TOKENS,
    numThreads: options.numThreads,
    cachePrecision: options.precision === 'strict' ? 'f32' : 'f16',
  });
  const template = source === undefined ? null : new ChatTemplate(tokenizer, source, { allowsControlTokens });
  const borders = promptBorders(model);
  const constraints = await openConstraints(model, tokenizer, { keepsThreadReady: true });
  const templateSandbox =
    options.runsRequestTemplates === false ? null : requestTemplates(tokenizer, { allowsControlTokens });
  const engine = new Engine({
    runner,
    tokenizer,
    template,
    borders,
    policy: options.policy ?? 'priority',
    toolFormat: options.toolFormat ?? null,
    constraints,
    templateSandbox,
    limits: {
      // As many again may be on their way out: the caller counts only those that somebody waits for.
      maxRequests: 2 * options.maxRequests,
      ...(options.maxChoices === undefined ? {} : { maxChoices: options.maxChoices }),
    },
  });
  return {
    engine,
    model: {
      path: model.path,
      architecture: model.architecture,
      contextLength: engine.limits.maxContextTokens,
      vocabSize: model.vocabSize,
      tokenizer: {
        chatTemplate: source ?? null,
        bosTokenId: tokenizer.bosTokenId,
        eosTokenId: tokenizer.eosTokenId,
        addsBos: borders.before.length > 0,
      },
    },
    codec: new TextCodec({ tokenizer, template, templateSandbox, borders }),
    close: () => {
      engine.close();
      templateSandbox?.close();
      constraints.close();
      model.close();
    },
  };
}

/** What the model's tokenizer puts around a text by itself; seen by letting it, since the file's metadata has several keys for it. */
export function promptBorders(model: LlamaModel): PromptBorders {
  const [plain, bordered] = [false, true].map((addSpecial) =>
    Array.from(model.tokenize('a', { addSpecial, parseSpecial: false })),
  ) as [number[], number[]];
  const start = bordered.findIndex((_, at) => plain.every((id, i) => bordered[at + i] === id));
  return { before: bordered.slice(0, start), after: bordered.slice(start + plain.length) };
}
