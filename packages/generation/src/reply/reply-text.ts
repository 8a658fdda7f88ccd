import type { TextTokenizer } from '../contract/text-tokenizer.ts';
import type { ChoiceText, RequestText, StopVerdict, TokenEnding } from '@trainyard/backend';
import { closeMatcher, ConstraintGuide } from './constraint.ts';
import type { RequestConstraint } from './reply-constraints.ts';
import { StopDetector, type StopConditions } from './stop-detector.ts';
import { ThinkingBudget, type ThinkingLimit } from './thinking-budget.ts';

/** Parts of the text of a request's replies, built once and shared by all its choices. */
export interface ReplyTextParts {
  readonly tokenizer: TextTokenizer;
  readonly stops: StopConditions;
  /** Closed with the request; null = any text. */
  readonly constraint: RequestConstraint | null;
  /** Null without a limit of reasoning. */
  readonly thinkingLimit: ThinkingLimit | null;
  /** Control tokens give no text. */
  readonly skipsSpecialTokens: boolean;
}

/** Text of the replies to one request: its constraints and its end. */
export class ReplyText implements RequestText {
  readonly #parts: ReplyTextParts;

  constructor(parts: ReplyTextParts) {
    this.#parts = parts;
  }

  get isMasking(): boolean {
    return this.#parts.constraint !== null || this.#parts.thinkingLimit !== null;
  }

  get maskingField(): string {
    return this.#parts.thinkingLimit === null ? 'constraint' : 'thinkingTokenBudget';
  }

  get wholeConstraint(): { readonly kind: string } | null {
    const { constraint, thinkingLimit } = this.#parts;
    if (constraint === null || thinkingLimit !== null || constraint.start.kind !== 'at_once') return null;
    // Another sampler would start the text again.
    if (constraint.hasBegun) return null;
    const { spec } = constraint;
    return hasKind(spec) ? spec : null;
  }

  openChoice(): ChoiceText {
    return new ChoiceReplyText(this.#parts);
  }

  textOf(tokenIds: readonly number[]): string {
    const { tokenizer, skipsSpecialTokens } = this.#parts;
    const decoder = tokenizer.createDecoder({ skipSpecial: skipsSpecialTokens });
    return tokenIds.map((id) => decoder.push(id)).join('') + decoder.end();
  }

  close(): void {
    closeMatcher(this.#parts.constraint?.matcher ?? null);
  }
}

function hasKind(spec: unknown): spec is { readonly kind: string } {
  return typeof spec === 'object' && spec !== null && 'kind' in spec && typeof spec.kind === 'string';
}

class ChoiceReplyText implements ChoiceText {
  readonly constraint: ConstraintGuide | null;
  readonly #thinking: ThinkingBudget | null;
  readonly #stops: StopDetector;

  constructor({ tokenizer, stops, constraint, thinkingLimit, skipsSpecialTokens }: ReplyTextParts) {
    this.constraint = constraint && new ConstraintGuide(constraint.matcher, constraint.start, tokenizer);
    this.#thinking = thinkingLimit && new ThinkingBudget(thinkingLimit, tokenizer);
    this.#stops = new StopDetector(stops, tokenizer.createDecoder({ skipSpecial: skipsSpecialTokens }));
  }

  get forcedId(): number | null {
    return this.#thinking?.forcedId ?? null;
  }

  push(token: number, ending: TokenEnding | null): StopVerdict {
    this.#thinking?.push(token);
    return this.#stops.push(token, ending);
  }

  close(): void {
    this.constraint?.close();
  }
}
