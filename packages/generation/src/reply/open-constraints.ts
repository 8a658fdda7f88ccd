import { Constraints } from '@trainyard/constraints';
import type { Tokenizer, Vocabulary } from '@trainyard/tokenizer';
import { ConstraintSpecs } from './constraint-specs.ts';

/** Opens a compiler of constraints on the model's own tokens. Takes about 0.3 s and 50 MB. */
export async function openConstraints(
  vocabulary: Pick<Vocabulary, 'vocabSize' | 'tokenBytes' | 'tokenKind'>,
  tokenizer: Tokenizer,
  options: { keepsThreadReady?: boolean } = {},
): Promise<ConstraintSpecs> {
  const constraints = await Constraints.create(
    {
      vocabSize: vocabulary.vocabSize,
      tokenBytes: (id) => vocabulary.tokenBytes(id),
      isControl: (id) => vocabulary.tokenKind(id) === 'control' || vocabulary.tokenKind(id) === 'unknown',
      eosTokenId: tokenizer.eosTokenId,
      endTokenIds: tokenizer.endTokenIds,
    },
    options,
  );
  return new ConstraintSpecs(constraints, tokenizer);
}
