import { GgufFile } from '@trainyard/native';
import { readArchitecture, UnsupportedModelError } from '@trainyard/transformer';

export interface TrainingFacts {
  /** Reason why the model cannot be trained; null if it can. */
  readonly untrainable: string | null;
  /** Transformer blocks; null if it cannot be trained. */
  readonly numLayers: number | null;
}

export function trainingFacts(path: string): TrainingFacts {
  using file = GgufFile.open(path);
  try {
    return { untrainable: null, numLayers: readArchitecture(file).numLayers };
  } catch (error) {
    if (error instanceof UnsupportedModelError) return { untrainable: error.message, numLayers: null };
    throw error;
  }
}
