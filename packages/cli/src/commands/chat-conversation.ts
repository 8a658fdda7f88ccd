import type { ChatBody } from '@trainyard/sdk';

interface Turn {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

export class Conversation {
  model: string;
  #system: string | null = null;
  #turns: Turn[] = [];
  readonly #fields = new Map<string, unknown>();

  constructor(model: string) {
    this.model = model;
  }

  get numTurns(): number {
    return this.#turns.length;
  }

  get system(): string | null {
    return this.#system;
  }

  get fields(): ReadonlyMap<string, unknown> {
    return this.#fields;
  }

  setSystem(text: string | null): void {
    this.#system = text;
  }

  setField(name: string, value: unknown): void {
    this.#fields.set(name, value);
  }

  /** @returns true if it was set */
  unsetField(name: string): boolean {
    return this.#fields.delete(name);
  }

  ask(content: string): void {
    this.#turns.push({ role: 'user', content });
  }

  answered(content: string): void {
    this.#turns.push({ role: 'assistant', content });
  }

  /** Removes the last question and its answer. @returns true if there was one */
  undo(): boolean {
    const last = this.#turns.findLastIndex(({ role }) => role === 'user');
    if (last !== -1) this.#turns.length = last;
    return last !== -1;
  }

  reset(): void {
    this.#turns = [];
  }

  request(): ChatBody {
    const system: Turn[] = this.#system === null ? [] : [{ role: 'system', content: this.#system }];
    return { ...Object.fromEntries(this.#fields), model: this.model, messages: [...system, ...this.#turns] };
  }
}

const OWN_FIELDS: Readonly<Record<string, string>> = {
  model: 'pass the model as an argument, or use /model',
  messages: 'the messages are the conversation itself',
  stream: 'replies are always streamed, except with --json',
};

/** Reason why a conversation cannot set that field, or null. */
export function refusalOfField(name: string, value: unknown): string | null {
  if (Object.hasOwn(OWN_FIELDS, name)) return `${name} cannot be set: ${OWN_FIELDS[name]}`;
  if (name === 'n' && value !== 1)
    return `n must be 1, because a conversation continues from one reply, got ${JSON.stringify(value)}`;
  return null;
}

/** Parses a value as JSON if possible, else returns the text. */
export function fieldOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
