import { Environment } from '@huggingface/jinja';
import { pythonFloat } from '../contract/python-values.ts';

/** The part of the library's values that is made here. */
interface Value {
  readonly value: unknown;
  toString(): string;
  __bool__(): Value;
}
type Kind = new (value: unknown) => Value;

/** The library's own types do not resolve in modules, and it exports none of these classes. */
const convert = (value: unknown): Value => new Environment().set('value', value) as unknown as Value;
const kindOf = (example: unknown): Kind => convert(example).constructor as unknown as Kind;
const [IntegerValue, FloatValue, ObjectValue, ArrayValue] = [kindOf(1), kindOf(0.5), kindOf({}), kindOf([])];

/** Such a value as one of the library's, which writes its numbers as Python does, as JSON and as text. */
export function runtimeValue(value: unknown): Value {
  return runtimeValueOf(value, new Map());
}

/** @param written numbers that are there already, by their text: the library takes two for equal that are the same object */
function runtimeValueOf(value: unknown, written: Map<string, WrittenNumber>): Value {
  const number = (kind: Kind, plain: number, text: string) => numberValue(kind, writtenNumber(plain, text, written));
  if (typeof value === 'bigint') return number(IntegerValue, Number(value), value.toString());
  if (typeof value !== 'object' || value === null) return convert(value);
  if (value instanceof Number) return number(FloatValue, value.valueOf(), pythonFloat(value.valueOf()));
  if (Array.isArray(value)) return new ArrayValue(value.map((item) => runtimeValueOf(item, written)));
  const entries = value instanceof Map ? [...(value as Map<string, unknown>)] : Object.entries(value);
  return new ObjectValue(new Map(entries.map(([key, member]) => [key, runtimeValueOf(member, written)])));
}

function writtenNumber(number: number, text: string, written: Map<string, WrittenNumber>): WrittenNumber {
  let found = written.get(text);
  if (found === undefined) written.set(text, (found = new WrittenNumber(number, text)));
  return found;
}

/** It computes and compares as the number. */
function numberValue(NumberValue: Kind, number: WrittenNumber): Value {
  const text = String(number);
  const value = new NumberValue(number);
  value.toString = () => text;
  value.__bool__ = () => convert(number.valueOf() !== 0);
  return value;
}

/** A number that has its own text; the library hands it to `JSON.stringify`. */
class WrittenNumber extends Number {
  readonly #text: string;

  constructor(number: number, text: string) {
    super(number);
    this.#text = text;
  }

  override toString(): string {
    return this.#text;
  }

  toJSON(): unknown {
    return (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(this.#text);
  }
}
