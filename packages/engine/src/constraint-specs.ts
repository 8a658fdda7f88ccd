import type { Constraints, ConstraintSpec } from '@trainyard/constraints';
import type { EngineTokenizer } from './chat.ts';
import type { ConstraintCompiler, TokenMatcher } from './constraint.ts';

/** Compiles {@link ConstraintSpec}s, and says in them what the engine itself asks of replies. */
export class ConstraintSpecs implements ConstraintCompiler {
  readonly #constraints: Constraints;
  readonly #tokenizer: EngineTokenizer;

  constructor(constraints: Constraints, tokenizer: EngineTokenizer) {
    this.#constraints = constraints;
    this.#tokenizer = tokenizer;
  }

  validate(constraint: unknown, signal: AbortSignal): Promise<void> {
    return this.#constraints.validate(constraint as ConstraintSpec, signal);
  }

  compile(constraint: unknown): TokenMatcher {
    return this.#constraints.compile(constraint as ConstraintSpec);
  }

  close(): void {
    this.#constraints.close();
  }

  forSchema(schema: Readonly<Record<string, unknown>>): ConstraintSpec {
    return { kind: 'json_schema', schema, whitespace: { kind: 'capped' }, closesObjects: true };
  }
}
