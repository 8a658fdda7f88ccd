import type { CallReader } from './call-writer.ts';

/** The reply is the arguments of one tool, as they are. A blank reply is a call without arguments. */
export function readNamed(name: string): CallReader {
  return function* (text, calls) {
    text.mark();
    const isBlank = (yield* text.skipSpace()) === '';
    text.rewind();
    calls.start(name);
    if (isBlank) calls.arguments('{}');
    else yield* text.scanTo([], (piece) => calls.arguments(piece));
  };
}
