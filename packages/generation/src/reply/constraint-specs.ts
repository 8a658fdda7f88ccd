import { ConstraintError, type Constraints, type ConstraintSpec, type TokenMatcher } from '@trainyard/constraints';
import { writeInOrder } from '@trainyard/protocol/json';
import type { ToolFormat } from '@trainyard/tokenizer';
import { callFormat, type CallFormatOptions } from './call-format.ts';
import type { TextTokenizer } from '../contract/text-tokenizer.ts';
import type { ConstraintCompiler } from './constraint.ts';

/** Compiles {@link ConstraintSpec}s, and expresses the engine's own constraints on replies in them. */
export class ConstraintSpecs implements ConstraintCompiler {
  readonly #constraints: Constraints;
  readonly #tokenizer: TextTokenizer;

  constructor(constraints: Constraints, tokenizer: TextTokenizer) {
    this.#constraints = constraints;
    this.#tokenizer = tokenizer;
  }

  validate(constraint: unknown, signal: AbortSignal): Promise<void> {
    return this.#constraints.validate(constraint as ConstraintSpec, signal);
  }

  get isCompiling(): boolean {
    return this.#constraints.isCompiling;
  }

  compile(constraint: unknown): TokenMatcher {
    return this.#constraints.compile(constraint as ConstraintSpec);
  }

  close(): void {
    this.#constraints.close();
  }

  orCalls(
    constraint: unknown,
    format: ToolFormat,
    options: Pick<CallFormatOptions, 'tools' | 'isParallel'>,
  ): ConstraintSpec {
    const spec = constraint as ConstraintSpec;
    const written = callFormat(format, { ...options, mark: (text) => this.#mark(text, spec) });
    if (written === null) return spec;
    const calls: ConstraintSpec = { kind: 'structural_tag', tag: writeInOrder({ format: written }) };
    return this.#isWithinLimits(calls) ? { kind: 'either', options: [spec, calls] } : spec;
  }

  /** False for hundreds of tools, or a schema with a keyword that cannot be enforced. */
  #isWithinLimits(spec: ConstraintSpec): boolean {
    try {
      this.#constraints.check(spec);
      return true;
    } catch (error) {
      if (error instanceof ConstraintError) return false;
      throw error;
    }
  }

  /** Matches a control token by its id, because text cannot produce it. */
  #mark(text: string, other: ConstraintSpec): Readonly<Record<string, unknown>> {
    const [id, ...others] = this.#tokenizer.encodeWithSpecial(text);
    const isToken = id !== undefined && others.length === 0;
    if (isToken && this.#tokenizer.createDecoder({ skipSpecial: true }).push(id) === '')
      return { type: 'token', token: id };
    // GBNF terminals have one character each: a longer one would take over texts with the same start.
    const isOtherGbnf = other.kind === 'grammar' && other.source.includes('::=');
    return isOtherGbnf
      ? { type: 'grammar', grammar: `root ::= ${JSON.stringify(text)}` }
      : { type: 'const_string', value: text };
  }

  forSchema(schema: Readonly<Record<string, unknown>>, options: { isRelaxed: boolean }): ConstraintSpec {
    return {
      kind: 'json_schema',
      schema: writeInOrder(schema),
      whitespace: { kind: 'capped' },
      closesObjects: true,
      ...options,
    };
  }
}
