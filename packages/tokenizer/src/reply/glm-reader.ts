import type { ToolDescription } from '../contract/tool-description.ts';
import { CallArguments, readClosedValue } from './call-arguments.ts';
import type { CallReader } from './call-writer.ts';
import { scanAndMark } from './json-call-readers.ts';
import { MalformedReply } from './reply-text.ts';

const KEY = '<arg_key>';
const END = '</tool_call>';

/**
 * Reader of `<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>…</tool_call>`, with or without
 * line breaks between tags.
 */
export function glmReader(tools: readonly ToolDescription[]): CallReader {
  return function* (text, calls, isSingle) {
    while ((yield* scanAndMark(text, ['<tool_call>'], calls)) !== null) {
      yield* text.skipSpace();
      const name = (yield* text.takeAll(/[^<\n{]+/y)).trim();
      if (name === '') throw new MalformedReply('a call without a name');
      const written = new CallArguments(calls, tools, name);
      yield* text.skipSpace();
      while (yield* text.accept(KEY)) {
        const key = (yield* text.takeAll(/[^<]+/y)).trim();
        yield* text.expect('</arg_key>');
        yield* text.skipSpace();
        yield* text.expect('<arg_value>');
        written.add(key, yield* readClosedValue(text, '</arg_value>', [KEY, END]));
        yield* text.skipSpace();
      }
      yield* text.expectUnlessFinished(END);
      written.finish();
      if (isSingle) return;
    }
  };
}
