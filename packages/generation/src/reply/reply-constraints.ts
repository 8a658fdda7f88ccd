import type { TokenMatcher } from '@trainyard/constraints';
import type { ConstraintCompiler, ConstraintStart } from './constraint.ts';
import { EngineError, refusal } from '@trainyard/backend';
import { naming } from '@trainyard/protocol/fields';
import type { GenerateRequest } from '../contract/generate-request.ts';
import { forcedCallSchema, toolsInOrder } from './reply-reader.ts';
import { REASONING_END, type ReplyTraits } from '../prompt/reply-traits.ts';

/** The constraint on the replies of a request. */
export interface RequestConstraint {
  /** The spec that the matcher was compiled from. */
  readonly spec: unknown;
  /** Closed with the request; choices go on from clones. */
  readonly matcher: TokenMatcher;
  readonly start: ConstraintStart;
}

/** Compiles the constraint on the replies to a request: the request's own, or what its choice of tools makes of it. */
export class ReplyConstraints {
  readonly #compiler: ConstraintCompiler | null;

  /** @param compiler null: there are no constraints here */
  constructor(compiler: ConstraintCompiler | null) {
    this.#compiler = compiler;
  }

  /**
   * A promise to await before {@link compile}; null when there is none.
   * @throws {EngineError} engine.invalid_request
   */
  check(request: GenerateRequest, traits: ReplyTraits | null, signal: AbortSignal): Promise<void> | null {
    const constraint = this.#constraintOf(request, traits);
    if (constraint === null) return null;
    if (this.#compiler === null) {
      throw refusal('constraint', naming`${{ field: 'constraint' }} must be null: this engine compiles none`);
    }
    const checked = this.#compiler.validate?.(constraint, signal) ?? null;
    return (
      checked &&
      checked.catch((cause: unknown) => {
        throw asConstraintError(cause);
      })
    );
  }

  /** @throws {EngineError} engine.invalid_request */
  compile(request: GenerateRequest, traits: ReplyTraits | null): RequestConstraint | null {
    const constraint = this.#constraintOf(request, traits);
    if (constraint === null) return null;
    try {
      const matcher = this.#compiler!.compile(constraint);
      return { spec: constraint, matcher, start: constraintStart(request, traits) };
    } catch (cause) {
      throw asConstraintError(cause);
    }
  }

  /** A choice of tools that forces calls takes the place of the request's own constraint; one that allows them stands beside it. */
  #constraintOf(request: GenerateRequest, traits: ReplyTraits | null): unknown {
    if (request.beamSearch !== null) return null;
    const { constraint, reply } = request;
    const schema = forcedCallSchema(reply);
    if (schema !== null) {
      // One that is strict is a promise, and its schema stands among those of the others.
      const isRelaxed = !reply?.tools?.some((tool) => tool.function['strict'] === true);
      return this.#compiler?.forSchema?.(schema, { isRelaxed }) ?? schema;
    }
    const format = traits?.toolFormat ?? null;
    if (constraint === null || format === null || reply?.toolChoice !== 'auto' || !reply.tools?.length)
      return constraint;
    const calls = { tools: toolsInOrder(reply) ?? [], isParallel: reply.parallelToolCalls };
    return this.#compiler?.orCalls?.(constraint, format, calls) ?? constraint;
  }
}

/** A reply that reasons is held to its constraint behind its reasoning. */
function constraintStart(request: GenerateRequest, traits: ReplyTraits | null): ConstraintStart {
  const marker = request.constraintStartsAfter;
  if (marker !== null) return { kind: 'behind', marker };
  const reasoning = request.reply ? (traits?.reasoning ?? null) : null;
  if (reasoning === null || reasoning.isDisabled) return { kind: 'at_once' };
  if (reasoning.startsInside) return { kind: 'behind', marker: REASONING_END };
  const openerId = traits?.thinkTokenId ?? null;
  return openerId === null ? { kind: 'at_once' } : { kind: 'behind_if_opened', openerId, marker: REASONING_END };
}

function asConstraintError(cause: unknown): EngineError {
  if (cause instanceof EngineError) return cause;
  const message = cause instanceof Error ? cause.message : String(cause);
  return refusal('constraint', naming`the constraint is refused: ${message}`, { cause });
}
