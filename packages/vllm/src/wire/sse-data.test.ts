import { expect, test } from 'vitest';
import { sseData } from './sse-data.ts';

async function read(...pieces: readonly (string | Uint8Array)[]): Promise<string[]> {
  const bytes = pieces.map((piece) => (typeof piece === 'string' ? Buffer.from(piece) : piece));
  const events: string[] = [];
  for await (const data of sseData(bytesOf(bytes))) events.push(data);
  return events;
}

async function* bytesOf(pieces: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* pieces;
}

test('events come whole, wherever the pieces are cut', async () => {
  const text = ': a comment\n\ndata: {"a":"é"}\n\nevent: named\ndata:two\ndata: lines\r\n\r\ndata: [DONE]\n\n';
  const bytes = Buffer.from(text);
  const whole = await read(text);
  expect(whole).toEqual(['{"a":"é"}', 'two\nlines', '[DONE]']);
  for (let at = 1; at < bytes.length; at++)
    expect(await read(bytes.subarray(0, at), bytes.subarray(at))).toEqual(whole);
});

test('unfinished data are no event', async () => {
  expect(await read('data: one\n\ndata: tw')).toEqual(['one']);
});
