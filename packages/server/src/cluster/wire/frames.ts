import type { EngineSecret } from './engine-secret.ts';
import { jsonLines } from './json-lines.ts';
import type { Signature } from './signature.ts';

/**
 * Characters of a text in one frame, and bytes of a line that holds so many: what nobody has shown to come from the engine takes no more memory than that for
 * each answer.
 */
const FRAME_CHARACTERS = 64 * 1024;
const MAX_FRAME_BYTES = 4 * FRAME_CHARACTERS;
/** A SHA-256 in base64url. */
const CODE_CHARACTERS = 43;
/** In front of what a frame holds: whether its text goes on in the next one. */
const [MORE, LAST] = ['+', '.'] as const;

/** The request that an answer is signed for. */
export type Asked = Pick<Signature, 'session' | 'count'>;

/** A frame is not the one that the engine sent: somebody on the way changed, left out, repeated or made it. */
export class ForgedFrame extends Error {
  override readonly name = 'ForgedFrame';
}

/**
 * Makes texts into lines, each with a code over its content, its number, the status, and the request that it answers: on the way none of them can be changed,
 * left out, repeated, or shown to another request.
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

  /** @param text without a line feed, as JSON is written here */
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
 * The texts of an answer, each as soon as it is whole.
 *
 * @param maxCharacters of one text
 * @throws {ForgedFrame}; {RangeError} for a longer text; Error when the answer ends within one
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
      throw new ForgedFrame(`part ${number} of an answer is not what was sent`);
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

/** Not between the halves of a character, which are none by themselves. */
function endOfPart(text: string, from: number): number {
  const end = from + FRAME_CHARACTERS;
  if (end >= text.length) return text.length;
  const last = text.charCodeAt(end - 1);
  return last >= 0xd8_00 && last <= 0xdb_ff ? end - 1 : end;
}

function partsOf({ session, count }: Asked, status: number, number: number, content: string): string[] {
  return ['answer', session, String(count), String(status), String(number), content];
}
