import { GgufFile, LlamaModel } from '@trainyard/native';
import { ChatTemplate, Tokenizer } from '@trainyard/tokenizer';
import { readArchitecture } from './model/architecture.ts';
import { OrtPolicyModel } from './model/ort-policy-model.ts';
import type { LoraConfig } from './model/policy-model.ts';
import { readWeights } from './model/weights.ts';
import type { TrainablePolicy } from './job/training-job.ts';
import { Workspace } from './model/workspace.ts';

/** A base model ready to be trained on: its weights are read once and serve one job after the other. */
export interface Trainer {
  readonly modelPath: string;
  readonly template: ChatTemplate;
  /** A policy with a fresh adapter; closes the one handed out before. */
  policy(lora: LoraConfig): Promise<TrainablePolicy>;
  close(): void;
}

/**
 * Reads a GGUF model file: weights as float32, vocabulary and chat template.
 *
 * @param options `numThreads` that compute; `allowsControlTokens` as the sampler has it, or prompts are not those that were sampled from.
 * @throws {TrainerError} `trainer.architecture_unsupported`; {NativeError} `native.gguf_malformed`, `native.model_unreadable`;
 *   {TokenizerError} `tokenizer.no_template`, `tokenizer.unknown_vocabulary`
 */
export async function openTrainer(options: {
  readonly modelPath: string;
  readonly numThreads: number;
  readonly allowsControlTokens?: boolean;
}): Promise<Trainer> {
  const { modelPath, numThreads, allowsControlTokens = false } = options;
  const file = GgufFile.open(modelPath);
  let architecture;
  let weights;
  try {
    architecture = readArchitecture(file);
    weights = readWeights(file, architecture);
  } finally {
    file.close();
  }
  const vocabulary = LlamaModel.load(modelPath, { vocabOnly: true });
  let template: ChatTemplate;
  try {
    template = ChatTemplate.fromModel(Tokenizer.fromModel(vocabulary), vocabulary, { allowsControlTokens });
  } catch (error) {
    vocabulary.close();
    throw error;
  }
  let current: OrtPolicyModel | null = null;
  const workspace = new Workspace();
  return {
    modelPath,
    template,
    policy: async (lora) => {
      current?.close();
      current = new OrtPolicyModel(architecture, weights, { lora, numThreads, workspace });
      return current;
    },
    close: () => {
      current?.close();
      current = null;
      workspace.clear();
      vocabulary.close();
    },
  };
}
