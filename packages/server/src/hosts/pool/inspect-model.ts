import { inspectServedModel, type ModelMemory, trainingFacts } from '@trainyard/engine';
import { openTextHalf } from '@trainyard/generation';

import type { OpenEngineOptions } from '../inference/open-engine.ts';
import type { ServedModel } from '../process/opened-text.ts';

/** Facts of a base model before its weights are loaded. */
export interface InspectedModel {
  readonly served: ServedModel;
  readonly memory: ModelMemory;
}

/** @throws {NativeError} if the file is missing or malformed, or its half-precision copy cannot be written */
export async function inspectModel(options: OpenEngineOptions): Promise<InspectedModel> {
  const { vocabulary, contextLength, memory } = inspectServedModel(options);
  const text = await openTextHalf(vocabulary, { ...options, runsRequestTemplates: false });
  const { path, architecture, vocabSize } = vocabulary;
  text.close();
  vocabulary.close();
  const facts = { path, architecture, contextLength, vocabSize, tokenizer: text.facts };
  return { served: { ...facts, ...trainingFacts(path) }, memory };
}
