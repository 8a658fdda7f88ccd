import type { EngineSecret } from './engine-secret.ts';
import { jsonLines } from './json-lines.ts';
import type { Signature } from './signature.ts';

/**
 * Maximum characters of a text in one frame, and bytes of its line: unauthenticated data take at most this
 * memory per answer.
 */
const FRAME_CHARACTERS = 64 * 1024;
const MAX_FRAME_BYTES = 4 * FRAME_CHARACTERS;
/** A SHA-256 in base64url. */
const CODE_CHARACTERS = 43;
/** First character of a frame: its text continues in the next one, or ends. */
const [MORE, LAST] = ['+', '.'] as const;

/** Request for which an answer is signed. */
export type Asked = Pick<Signature, 'session' | 'count'>;

/** A frame that the engine did not send: it was changed, dropped, repeated or forged on the way. */
export class ForgedFrame extends Error {
  override readonly name = 'ForgedFrame';
}

/**
 * Converts texts to lines, each with a code over its content, its number, the status, and its request: no one
 * on the way can change, drop or repeat one, or pass it to another request.
 */
export class FrameWriter {
  readonly #secret: EngineSecret;
  readonly #asked: Asked;
  readonly #status: number;
  #number = 0;

  constructor(secret: EngineSecret, asked: Asked, status: number) {
    this.#secret = secret;
    this.#asked = asked;
    this.#status = status;
  }

  /** @param text without a line feed, like the JSON here */
  frame(text: string): string {
    let lines = '';
    let from = 0;
    do {
      const end = endOfPart(text, from);
      const content = `${end < text.length ? MORE : LAST}${text.slice(from, end)}`;
      lines += `${this.#secret.codeOf(...partsOf(this.#asked, this.#status, this.#number, content))}${content}\n`;
      this.#number += 1;
      from = end;
    } while (from < text.length);
    return lines;
  }
}

/**
 * Texts of an answer, each as soon as it is complete.
 * @param maxCharacters of one text
 * @throws {ForgedFrame}; {RangeError} for a longer text; Error if the answer ends within one
 */
export async function* readFrames(
  pieces: AsyncIterable<Buffer>,
  by: { readonly secret: EngineSecret; readonly asked: Asked; readonly status: number },
  maxCharacters: number,
): AsyncGenerator<string, void, undefined> {
  const { secret, asked, status } = by;
  let number = 0;
  let text = '';
  for await (const line of linesOf(pieces)) {
    const [code, content] = [line.slice(0, CODE_CHARACTERS), line.slice(CODE_CHARACTERS)];
    if (!secret.isCodeOf(code, ...partsOf(asked, status, number, content)))
      throw new ForgedFrame(`part ${number} of an answer was changed on the way`);
    number += 1;
    text += content.slice(1);
    if (text.length > maxCharacters) throw new RangeError(`a text has more than ${maxCharacters} characters`);
    if (content.startsWith(MORE)) continue;
    yield text;
    text = '';
  }
  if (text !== '') throw new Error('the answer ended within a text');
}

async function* linesOf(pieces: AsyncIterable<Buffer>): AsyncGenerator<string, void, undefined> {
  try {
    yield* jsonLines(pieces, MAX_FRAME_BYTES);
  } catch (error) {
    throw error instanceof RangeError ? new ForgedFrame(error.message) : error;
  }
}

/** Avoids splitting a surrogate pair. */
function endOfPart(text: string, from: number): number {
  const end = from + FRAME_CHARACTERS;
  if (end >= text.length) return text.length;
  const last = text.charCodeAt(end - 1);
  return last >= 0xd8_00 && last <= 0xdb_ff ? end - 1 : end;
}

function partsOf({ session, count }: Asked, status: number, number: number, content: string): string[] {
  return ['answer', session, String(count), String(status), String(number), content];
}
