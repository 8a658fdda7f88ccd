import type { TokenMatcher } from '@trainyard/constraints';
import type { TextTokenizer } from '../contract/text-tokenizer.ts';
import { continuedText } from '../prompt/chat.ts';
import { closeMatcher, type ConstraintCompiler, type ConstraintStart } from './constraint.ts';
import { EngineError, refusal } from '@trainyard/backend';
import { briefly, naming } from '@trainyard/protocol/fields';
import type { GenerateRequest } from '../contract/generate-request.ts';
import { forcedCallSchema, toolsInOrder } from './reply-reader.ts';
import { REASONING_END, type ReplyTraits } from '../prompt/reply-traits.ts';

export interface RequestConstraint {
  readonly spec: unknown;
  /** Closed with the request; choices use clones. */
  readonly matcher: TokenMatcher;
  /** The prompt contains the start of the text. */
  readonly hasBegun: boolean;
  readonly start: ConstraintStart;
}

/** Compiles the constraint on the replies to a request: the request's own, or that of its tool choice. */
export class ReplyConstraints {
  readonly #compiler: ConstraintCompiler | null;
  readonly #tokenizer: Pick<TextTokenizer, 'encodeAfter'>;

  /** @param compiler null: constraints are not supported */
  constructor(compiler: ConstraintCompiler | null, tokenizer: Pick<TextTokenizer, 'encodeAfter'>) {
    this.#compiler = compiler;
    this.#tokenizer = tokenizer;
  }

  /**
   * Returns a promise to await before {@link compile}; null if there is none.
   * @throws {EngineError} engine.invalid_request
   */
  check(request: GenerateRequest, traits: ReplyTraits | null, signal: AbortSignal): Promise<void> | null {
    const constraint = this.#constraintOf(request, traits);
    if (constraint === null) return null;
    if (this.#compiler === null) {
      throw refusal('constraint', naming`${{ field: 'constraint' }} must be null: this engine supports no constraints`);
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
    const start = constraintStart(request, traits);
    const begun = forcedCallSchema(request.reply) === null ? begunText(request, traits, start) : null;
    try {
      const matcher = this.#compiler!.compile(constraint);
      if (begun === null) return { spec: constraint, matcher, hasBegun: false, start };
      this.#begin(matcher, begun, constraint);
      return { spec: constraint, matcher, hasBegun: begun !== '', start: { kind: 'at_once' } };
    } catch (cause) {
      throw asConstraintError(cause);
    }
  }

  /**
   * Advances the matcher by the text that the reply continues, so that both together satisfy the constraint.
   * @throws {EngineError} engine.invalid_request; the matcher is closed
   */
  #begin(matcher: TokenMatcher, text: string, constraint: unknown): void {
    // Leading blanks are not part of JSON.
    const begun = isJson(constraint) ? text.trimStart() : text;
    let isTaken = false;
    try {
      isTaken = Array.from(this.#tokenizer.encodeAfter(begun)).every((id) => matcher.accept(id));
    } finally {
      if (!isTaken) closeMatcher(matcher);
    }
    if (isTaken) return;
    const message = naming`the text to continue (${briefly(begun)}) cannot start a text that satisfies ${{ field: 'constraint' }}: send a valid start, or no text to continue`;
    throw refusal('constraint', message);
  }

  /**
   * A tool choice that forces calls replaces the request's own constraint; one that allows them is an
   * alternative to it.
   */
  #constraintOf(request: GenerateRequest, traits: ReplyTraits | null): unknown {
    if (request.beamSearch !== null) return null;
    const { constraint, reply } = request;
    const schema = forcedCallSchema(reply);
    if (schema !== null) {
      // A strict tool must be honoured, and its schema is one among the others.
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

/** Start of the constraint: after the reasoning, if the reply reasons. */
function constraintStart(request: GenerateRequest, traits: ReplyTraits | null): ConstraintStart {
  const marker = request.constraintStartsAfter;
  if (marker !== null) return { kind: 'after', marker };
  const reasoning = request.reply ? (traits?.reasoning ?? null) : null;
  if (reasoning === null || reasoning.isDisabled) return { kind: 'at_once' };
  if (reasoning.startsInside) return { kind: 'after', marker: REASONING_END };
  const openerId = traits?.thinkTokenId ?? null;
  return openerId === null ? { kind: 'at_once' } : { kind: 'after_if_opened', openerId, marker: REASONING_END };
}

/** Part of the continued text that is under the constraint; null if the constraint starts in the reply. */
function begunText(request: GenerateRequest, traits: ReplyTraits | null, start: ConstraintStart): string | null {
  const text = continuedText(request.prompt);
  if (text === '') return null;
  const isReasoning = request.reply !== null && traits?.reasoning !== null && traits?.reasoning !== undefined;
  const marker = request.constraintStartsAfter ?? (isReasoning ? REASONING_END : null);
  const end = marker === null ? -1 : text.lastIndexOf(marker);
  if (marker !== null && end >= 0) return text.slice(end + marker.length).trimStart();
  return start.kind === 'after' ? null : text;
}

function isJson(spec: unknown): boolean {
  if (typeof spec !== 'object' || spec === null || !('kind' in spec)) return false;
  if (spec.kind === 'either' && 'options' in spec && Array.isArray(spec.options)) return spec.options.some(isJson);
  return spec.kind === 'json_schema' || spec.kind === 'json_object';
}

function asConstraintError(cause: unknown): EngineError {
  if (cause instanceof EngineError) return cause;
  const message = cause instanceof Error ? cause.message : String(cause);
  return refusal('constraint', naming`the constraint is refused: ${message}`, { cause });
}
