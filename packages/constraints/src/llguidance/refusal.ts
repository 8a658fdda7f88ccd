import { ConstraintError, type ConstraintErrorCode } from '../contract/constraint-error.ts';
import { LlguidanceRefusal, LlguidanceTrap } from './llguidance.ts';

/** llguidance's wordings for each code; the first match decides. */
const WORDINGS: readonly (readonly [RegExp, ConstraintErrorCode])[] = [
  [
    /unsatisfiable|NoExtension|no tokens allowed|regex is empty|matches nothing|empty language/i,
    'constraint.unsatisfiable',
  ],
  [/fuel|too (?:big|large|many|complex|deep)|TooComplex|limit|stack level|exceeded/i, 'constraint.too_large'],
  [
    /unimplemented|not (?:yet )?supported|only supported|unsupported|unknown format|lookaround|look-around|not disjoint|disjoint|anchor/i,
    'constraint.unsupported',
  ],
];

const MAX_MESSAGE_LENGTH = 400;

/** Returns errors unchanged unless they are llguidance's. */
export function compileError(error: unknown): unknown {
  if (error instanceof LlguidanceTrap) return trapError('constraint.too_large', error);
  if (!(error instanceof LlguidanceRefusal)) return error;
  const code = WORDINGS.find(([wording]) => wording.test(error.message))?.[1] ?? 'constraint.invalid';
  return new ConstraintError(code, explain(code, error.message), { cause: error });
}

/** Like {@link compileError}, for errors during a completion. */
export function runError(error: unknown): unknown {
  if (error instanceof LlguidanceTrap) return trapError('constraint.exhausted', error);
  if (!(error instanceof LlguidanceRefusal)) return error;
  return new ConstraintError('constraint.exhausted', `the constraint cannot continue: ${brief(error.message)}`, {
    cause: error,
  });
}

function trapError(code: ConstraintErrorCode, trap: LlguidanceTrap): ConstraintError {
  const reasons = {
    stack: 'the constraint refers to itself or to others too deeply',
    memory: 'the constraint needs more memory than one may take',
    panic: 'the constraint cannot be worked with',
  };
  return new ConstraintError(code, reasons[trap.reason], { cause: trap });
}

function explain(code: ConstraintErrorCode, message: string): string {
  if (code === 'constraint.unsatisfiable') {
    return /NoExtension|no tokens allowed/i.test(message) ? 'no text satisfies the constraint' : brief(message);
  }
  return brief(message);
}

/** First line only: the rest quotes the compiled source. */
function brief(message: string): string {
  const text = message
    .split('\n', 1)[0]!
    .replace(/^at \d+\(\d+\): /, '')
    .trim();
  return text.length <= MAX_MESSAGE_LENGTH ? text : `${text.slice(0, MAX_MESSAGE_LENGTH)}…`;
}
