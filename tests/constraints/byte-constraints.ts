import type { Constraints, ConstraintSpec, ConstraintVocabulary } from '@trainyard/constraints';
import { ByteVocabulary } from '@trainyard/tokenizer/testing';

const vocabulary = new ByteVocabulary();

/** One token per byte: a text is its own tokens. */
export const BYTES: ConstraintVocabulary = {
  vocabSize: vocabulary.vocabSize,
  tokenBytes: (id) => vocabulary.tokenBytes(id),
  isControl: (id) => vocabulary.tokenKind(id) === 'control',
  eosTokenId: vocabulary.eosTokenId,
  endTokenIds: [vocabulary.eosTokenId, vocabulary.idOf('<|endoftext|>')],
};

/** True if exactly this text is allowed. */
export function allows(constraints: Constraints, spec: ConstraintSpec, text: string): boolean {
  const matcher = constraints.compile(spec);
  try {
    return Buffer.from(text).every((byte) => matcher.accept(byte)) && matcher.canEnd;
  } finally {
    matcher.close();
  }
}

export function schemaSpec(schema: unknown): ConstraintSpec {
  return { kind: 'json_schema', schema, whitespace: { kind: 'capped' }, closesObjects: false };
}
