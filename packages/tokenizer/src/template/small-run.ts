import { type Environment, Interpreter, type parse } from '@huggingface/jinja';
import { membersOf } from '../contract/python-values.ts';

type Program = ReturnType<typeof parse>;

/** The part of the library's values that is looked at. */
interface Value {
  readonly type: string;
  readonly value: unknown;
}

/** The library's own types do not resolve in modules. */
const Evaluator = Interpreter as unknown as new (environment: Environment) => {
  run(program: Program): Value;
  evaluate(statement: { readonly type: string } | undefined, environment: Environment): Value;
};

/** A real template evaluates some hundred expressions for a short conversation, in a fraction of a millisecond. */
const MAX_EVALUATIONS = 20_000;
const MAX_MS = 50;
/** Evaluations between two looks at the clock. */
const CLOCK_INTERVAL = 64;
/** Limit of one text, characters, or one list, items: one operation on that much is over soon, whatever it is. */
const MAX_LENGTH = 64 * 1024;

/** Limits of the variables: characters of all texts, and values. */
const MAX_INPUT_CHARACTERS = 64 * 1024;
const MAX_INPUT_VALUES = 2_000;

class TooLarge extends Error {}

/** Counts what it evaluates, and ends by itself where that becomes too much. */
class CountingInterpreter extends Evaluator {
  #numLeft = MAX_EVALUATIONS;
  readonly #deadline = performance.now() + MAX_MS;

  override evaluate(statement: { readonly type: string } | undefined, environment: Environment): Value {
    this.#numLeft -= 1;
    if (this.#numLeft < 0 || (this.#numLeft % CLOCK_INTERVAL === 0 && performance.now() > this.#deadline))
      throw new TooLarge();
    const result = super.evaluate(statement, environment);
    const { value } = result;
    if ((typeof value === 'string' || Array.isArray(value)) && value.length > MAX_LENGTH) throw new TooLarge();
    // Lists of lists of the same list: written as text they grow with every layer, out of a few evaluations.
    if (statement !== undefined && LITERALS.has(statement.type) && holdsLists(value)) throw new TooLarge();
    return result;
  }
}

const LITERALS: ReadonlySet<string> = new Set(['ArrayLiteral', 'ObjectLiteral', 'TupleLiteral']);

/** @param value of a list, or of an object */
function holdsLists(value: unknown): boolean {
  const members = value instanceof Map ? [...(value as Map<string, Value>).values()] : (value as Value[]);
  return members.some((member) => Array.isArray(member.value) || member.value instanceof Map);
}

/**
 * Runs a template without a watch from outside, which costs a thread a run: 0.2 ms of processor time, and more until it is over where the cores are busy.
 *
 * @returns null when the run became too large for that: it has changed nothing, and can be made anew under a watch
 * @throws what the template throws
 */
export function runSmall(program: Program, environment: Environment): string | null {
  try {
    return String(new CountingInterpreter(environment).run(program).value);
  } catch (error) {
    if (error instanceof TooLarge) return null;
    throw error;
  }
}

/** Whether a run on these variables may well be a small one. */
export function areSmall(variables: Readonly<Record<string, unknown>>): boolean {
  const waiting: unknown[] = [variables];
  let numCharacters = 0;
  let numValues = 0;
  for (let value = waiting.pop(); value !== undefined; value = waiting.pop()) {
    numValues += 1;
    if (typeof value === 'string') numCharacters += value.length;
    else if (typeof value === 'object' && value !== null) {
      for (const member of membersOf(value)) waiting.push(member ?? null);
    }
    if (numCharacters > MAX_INPUT_CHARACTERS || numValues + waiting.length > MAX_INPUT_VALUES) return false;
  }
  return true;
}
