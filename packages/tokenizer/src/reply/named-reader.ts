import { readArguments } from '../contract/arguments-text.ts';
import type { CallReader } from './call-writer.ts';
import { MalformedReply } from './reply-text.ts';

/**
 * Reader of a reply that is the arguments of one tool. A blank reply that ended by itself is a call without
 * arguments.
 */
export function readNamed(name: string): CallReader {
  return function* (text, calls) {
    text.mark();
    const first = yield* text.skipSpace();
    const isBlank = first === '' && !text.isCutOff;
    if (first !== '{' && !isBlank) throw new MalformedReply('expected an object');
    text.rewind();
    text.mark();
    calls.start(name);
    let whole = '';
    if (isBlank) calls.arguments('{}');
    else
      yield* text.scanTo([], (piece) => {
        whole += piece;
        calls.arguments(piece);
      });
    if (!isBlank && readArguments(whole) === null) throw new MalformedReply('an object that is not whole');
    calls.finish();
  };
}
