import { GgufFile, LlamaModel } from '@trainyard/native';
import { ChatTemplate, Tokenizer } from '@trainyard/tokenizer';
import type { Architecture } from '@trainyard/transformer';
import { trainableArchitecture } from '../model/trainable-architecture.ts';

/** A base model without weights, for training with a remote learner. */
export interface OpenedTemplate {
  readonly modelPath: string;
  readonly architecture: Architecture;
  readonly template: ChatTemplate;
  close(): void;
}

/**
 * @param options `allowsControlTokens` must equal the sampler's, or prompts would differ
 * @throws {TrainerError} `trainer.architecture_unsupported`; {NativeError} `native.gguf_malformed`,
 * `native.model_unreadable`; {TokenizerError} `tokenizer.no_template`, `tokenizer.unknown_vocabulary`
 */
export function openTemplate(options: {
  readonly modelPath: string;
  readonly allowsControlTokens?: boolean;
}): OpenedTemplate {
  const { modelPath, allowsControlTokens = false } = options;
  using file = GgufFile.open(modelPath);
  const architecture = trainableArchitecture(file);
  const vocabulary = LlamaModel.load(modelPath, { vocabOnly: true });
  try {
    const template = ChatTemplate.fromModel(Tokenizer.fromModel(vocabulary), vocabulary, { allowsControlTokens });
    return { modelPath, architecture, template, close: () => vocabulary.close() };
  } catch (error) {
    vocabulary.close();
    throw error;
  }
}
