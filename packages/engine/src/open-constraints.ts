import { Constraints, type ConstraintSpec } from '@trainyard/constraints';
import type { LlamaModel } from '@trainyard/native';
import type { Tokenizer } from '@trainyard/tokenizer';
import type { ConstraintCompiler } from './constraint.ts';

/** A compiler of {@link ConstraintSpec}s on the model's own tokens. Takes some 0.3 s and 50 MB. */
export async function openConstraints(
  model: LlamaModel,
  tokenizer: Tokenizer,
): Promise<ConstraintCompiler & { close(): void }> {
  const constraints = await Constraints.create({
    vocabSize: model.vocabSize,
    tokenBytes: (id) => model.tokenBytes(id),
    isControl: (id) => model.tokenKind(id) === 'control' || model.tokenKind(id) === 'unknown',
    eosTokenId: tokenizer.eosTokenId,
    endTokenIds: tokenizer.endTokenIds,
  });
  return {
    validate: (constraint, signal) => constraints.validate(constraint as ConstraintSpec, signal),
    compile: (constraint) => constraints.compile(constraint as ConstraintSpec),
    forSchema: (schema): ConstraintSpec => ({
      kind: 'json_schema',
      schema,
      whitespace: { kind: 'capped' },
      closesObjects: true,
    }),
    close: () => constraints.close(),
  };
}
