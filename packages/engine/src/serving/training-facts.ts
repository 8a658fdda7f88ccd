import { GgufFile } from '@trainyard/native';
import {
  EXPERT_MATRICES,
  EXPERT_TENSORS,
  linearsByLayer,
  type LinearName,
  parameterCount,
  readArchitecture,
  UnsupportedModelError,
} from '@trainyard/transformer';

export interface TrainingFacts {
  /** Reason why the model cannot be trained; null if it can. */
  readonly untrainable: string | null;
  /** Linear layers that can have adapters, by transformer block; null if it cannot be trained. */
  readonly linearsByLayer: readonly (readonly LinearName[])[] | null;
  /** Longest sequence that rope factors for short contexts allow, tokens; null without such factors. */
  readonly shortContext: number | null;
  readonly parameters: ParameterCounts;
}

export interface ParameterCounts {
  /** All weights of the file. */
  readonly total: number;
  /** Weights that each token is multiplied by: those of blocks, without experts that it does not use, and of the head. */
  readonly multiplied: number;
}

export function trainingFacts(path: string): TrainingFacts {
  using file = GgufFile.open(path);
  const parameters = countParameters(file);
  try {
    const architecture = readArchitecture(file);
    return {
      untrainable: null,
      linearsByLayer: linearsByLayer(architecture),
      shortContext: architecture.longRope?.originalContext ?? null,
      parameters,
    };
  } catch (error) {
    if (error instanceof UnsupportedModelError)
      return { untrainable: error.message, linearsByLayer: null, shortContext: null, parameters };
    throw error;
  }
}

const EXPERT_SUFFIXES = EXPERT_MATRICES.map((matrix) => `.${EXPERT_TENSORS[matrix]}`);

function countParameters({ tensors, metadata }: Pick<GgufFile, 'tensors' | 'metadata'>): ParameterCounts {
  const total = parameterCount({ tensors });
  const setting = (key: string): number =>
    Number(metadata.get(`${String(metadata.get('general.architecture'))}.${key}`));
  const ofExperts = parameterCount({ tensors }, (name) => EXPERT_SUFFIXES.some((suffix) => name.endsWith(suffix)));
  const unused =
    ofExperts === 0 ? 0 : Math.round(ofExperts * (1 - setting('expert_used_count') / setting('expert_count')));
  // Without a head of its own a model multiplies by its embedding, else it only looks up rows.
  const multiplied = tensors.has('output.weight')
    ? parameterCount({ tensors }, (name) => name !== 'token_embd.weight')
    : total;
  return { total, multiplied: multiplied - (Number.isFinite(unused) ? unused : 0) };
}
