import { expect, test } from 'vitest';

import { readServerSentEvents } from './server-sent-events.ts';

/** A response whose body arrives in these pieces. */
function streamed(pieces: readonly (string | Uint8Array<ArrayBuffer>)[], onCancel: () => void = () => undefined) {
  const bytes = pieces.map((piece) => (typeof piece === 'string' ? new TextEncoder().encode(piece) : piece));
  let index = 0;
  return new Response(
    new ReadableStream({
      pull(controller) {
        const piece = bytes[index++];
        if (piece === undefined) controller.close();
        else controller.enqueue(piece);
      },
      cancel: onCancel,
    }),
  );
}

async function read(...pieces: (string | Uint8Array<ArrayBuffer>)[]): Promise<string[]> {
  const events: string[] = [];
  for await (const { data } of readServerSentEvents(streamed(pieces))) events.push(data);
  return events;
}

test.each([
  ['LF', '\n'],
  ['CRLF', '\r\n'],
  ['CR', '\r'],
])('lines may end in %s', async (_name, end) => {
  expect(await read(['data: a', '', ': a comment', 'event: x', 'data:b', 'data: c', '', ''].join(end))).toEqual([
    'a',
    'b\nc',
  ]);
});

test('a stream reads the same however it is cut', async () => {
  const text = 'data: {"a": "ö"}\r\n\r\ndata: two\r\ndata: lines\r\n\r\ndata: [DONE]\r\n\r\n';
  const bytes = new TextEncoder().encode(text);
  const whole = await read(text);
  expect(whole).toEqual(['{"a": "ö"}', 'two\nlines', '[DONE]']);
  for (let cut = 1; cut < bytes.length; cut++) {
    expect(await read(bytes.slice(0, cut), bytes.slice(cut)), `cut at byte ${cut}`).toEqual(whole);
  }
  expect(await read(...Array.from(bytes, (_byte, index) => bytes.slice(index, index + 1)))).toEqual(whole);
});

test('blanks beyond the first belong to the data, and data may be empty', async () => {
  expect(await read('data:  two blanks \n\ndata\n\ndata:\n\n')).toEqual([' two blanks ', '', '']);
});

test('an event that is cut off before its blank line is none', async () => {
  expect(await read('data: whole\n\ndata: cut off\n')).toEqual(['whole']);
});

test('a byte order mark is not part of the first field', async () => {
  expect(await read('\uFEFFdata: a\n\n')).toEqual(['a']);
  expect(await read(Uint8Array.of(0xef, 0xbb), Uint8Array.of(0xbf), 'data: a\n\n')).toEqual(['a']);
});

test('an event that ends in CR is there before the next piece comes', async () => {
  const { readable, writable } = new TransformStream<Uint8Array<ArrayBuffer>>();
  const writer = writable.getWriter();
  const events = readServerSentEvents(new Response(readable));
  void writer.write(new TextEncoder().encode('data: a\r\r'));
  expect((await events.next()).value?.data).toBe('a');
  void writer.write(new TextEncoder().encode('\ndata: b\r\r'));
  expect((await events.next()).value?.data).toBe('b');
  await events.return(undefined);
});

test('leaving the loop cancels the response', async () => {
  let isCancelled = false;
  const response = streamed(['data: 1\n\n', 'data: 2\n\n', 'data: 3\n\n'], () => (isCancelled = true));
  for await (const { data } of readServerSentEvents(response)) {
    expect(data).toBe('1');
    break;
  }
  expect(isCancelled).toBe(true);
});
