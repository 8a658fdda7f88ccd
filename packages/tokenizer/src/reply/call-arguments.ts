import type { ToolDescription } from '../contract/tool-description.ts';
import type { CallWriter } from './call-writer.ts';
import { pythonJson } from './python-json.ts';
import { MalformedReply, type Reading, type ReplyText } from './reply-text.ts';
import { jsonOfText, schemaTypes } from './schema-value.ts';

/** Arguments of one call, from text values; the tool's schema gives their types. */
export class CallArguments {
  readonly #calls: CallWriter;
  readonly #parameters: Readonly<Record<string, unknown>> | null;
  readonly #keys = new Set<string>();

  constructor(calls: CallWriter, tools: readonly ToolDescription[], name: string) {
    this.#calls = calls;
    this.#parameters = tools.find((tool) => tool.function.name === name)?.function.parameters ?? null;
    calls.start(name);
  }

  /** @throws {MalformedReply} for a duplicate key */
  add(key: string, text: string): void {
    if (this.#keys.has(key)) throw new MalformedReply(`parameter ${key} twice`);
    const value = jsonOfText(text, schemaTypes(this.#schemaOf(key), this.#parameters));
    this.#calls.arguments(`${this.#keys.size === 0 ? '{' : ', '}${pythonJson(key)}: ${value}`);
    this.#keys.add(key);
  }

  finish(): void {
    this.#calls.arguments(this.#keys.size === 0 ? '{}' : '}');
    this.#calls.finish();
  }

  /** Null if unknown. */
  knows(key: string): boolean | null {
    const properties = this.#properties();
    return properties === null ? null : Object.hasOwn(properties, key);
  }

  #schemaOf(key: string): unknown {
    const properties = this.#properties();
    return properties !== null && Object.hasOwn(properties, key) ? properties[key] : undefined;
  }

  #properties(): Readonly<Record<string, unknown>> | null {
    const properties = this.#parameters?.['properties'];
    return typeof properties === 'object' && properties !== null ? (properties as Record<string, unknown>) : null;
  }
}

/**
 * Reads a value up to its closing tag. A closing tag counts only if followed by text that may come after a
 * value, because values may be source code.
 *
 * @throws {MalformedReply} if the reply ends before
 */
export function* readClosedValue(text: ReplyText, closing: string, next: readonly string[]): Reading<string> {
  let value = '';
  for (;;) {
    if ((yield* text.scanTo([closing], (piece) => (value += piece))) === null)
      throw new MalformedReply('a value that is not closed');
    text.skip(closing.length);
    if (yield* text.isFollowedBy(next)) return value;
    value += closing;
  }
}
