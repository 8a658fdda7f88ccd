import { LlamaModel } from '@trainyard/native';
import { ChatTemplate, Tokenizer } from '@trainyard/tokenizer';
import { Engine } from './engine.ts';
import { LlamaRunner } from './llama-runner.ts';
import { servedModelPath } from './served-model.ts';
import { TextCodec } from './text-codec.ts';

/** Tokens of one llama.cpp batch: more than any step plans, so that it is never the limit. */
const BATCH_TOKENS = 1024;

export interface OpenEngineOptions {
  /** GGUF file, any quantisation. */
  readonly modelPath: string;
  /** `exact` serves half-precision weights, so that sampler and trainer agree; `fast` the file as it is. */
  readonly precision: 'exact' | 'fast';
  /** Folder for the half-precision copy when the model's own folder cannot be written. */
  readonly cacheDirectory: string;
  readonly numThreads: number;
  /** KV cache over all sequences, tokens. */
  readonly capacityTokens: number;
  readonly maxSequences: number;
  /** Requests in flight, running ones included. */
  readonly maxRequests: number;
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
}

/**
 * An engine on llama.cpp, with the model's own tokenizer and chat template.
 *
 * @throws {NativeError} when the file is missing, malformed, or no llama.cpp fits this machine
 */
export function openEngine(options: OpenEngineOptions): OpenedEngine {
  const model = LlamaModel.load(servedModelPath(options));
  const tokenizer = Tokenizer.fromModel(model);
  const source = model.chatTemplate;
  const runner = new LlamaRunner(model, {
    contextTokens: options.capacityTokens,
    maxSequences: options.maxSequences,
    batchTokens: BATCH_TOKENS,
    numThreads: options.numThreads,
  });
  const template = source === undefined ? null : new ChatTemplate(tokenizer, source);
  const engine = new Engine({
    runner,
    tokenizer,
    template,
    limits: { maxRequests: options.maxRequests },
  });
  return {
    engine,
    model: {
      path: model.path,
      architecture: model.architecture,
      contextLength: engine.limits.maxContextTokens,
      vocabSize: model.vocabSize,
    },
    codec: new TextCodec(tokenizer, template, beginTokenIds(model)),
    close: () => {
      engine.close();
      model.close();
    },
  };
}

/** What the model puts in front of every text: its beginning-of-sequence token where it asks for one, else nothing. */
function beginTokenIds(model: LlamaModel): number[] {
  const ids = model.tokenize('', { addSpecial: true, parseSpecial: false });
  return ids[0] !== undefined && ids[0] === model.bosTokenId ? [ids[0]] : [];
}
