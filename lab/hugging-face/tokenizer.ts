import { mkdirSync } from 'node:fs';

import { GgufFile, LlamaModel } from '@trainyard/native';
import { Tokenizer } from '@trainyard/tokenizer';
import { writeTokenizerFiles } from '@trainyard/trainer';

/** Writes the tokenizer of a model file in Hugging Face's form, including the chat template. */
export function writeHuggingFaceTokenizer(modelPath: string, folder: string): void {
  using source = GgufFile.open(modelPath);
  using vocabulary = LlamaModel.load(modelPath, { vocabOnly: true });
  mkdirSync(folder, { recursive: true });
  const { contextLength } = vocabulary;
  writeTokenizerFiles(folder, source, { vocabulary, tokenizer: Tokenizer.fromModel(vocabulary), contextLength });
}
