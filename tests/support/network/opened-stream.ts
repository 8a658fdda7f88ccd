import type { NetworkPart } from './network-parts.ts';

/** End of a stream, as seen by its client. */
export interface StreamEnd {
  /** Its last line was `[DONE]`. */
  readonly isDone: boolean;
  /** error in the stream; null if none */
  readonly error: { readonly code: string; readonly message: string } | null;
  /** number of errors in the stream; more than one is a fault */
  readonly numErrors: number;
  /** error of the connection; null for an orderly end */
  readonly broken: Error | null;
  readonly numChunks: number;
  /** completion tokens in its last chunk with usage; null without one */
  readonly numTokens: number | null;
}

/**
 * A streamed chat that has started.
 * @param body of the request
 * @returns its end, which always settles, and a function that leaves it
 */
export async function openedStream(
  part: NetworkPart,
  body: object,
): Promise<{ end: Promise<StreamEnd>; leave: () => void }> {
  const response = await part.ask('/chat/completions', {
    ...body,
    stream: true,
    stream_options: { include_usage: true },
  });
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  const reader = response.body!.getReader();
  const first = await reader.read();
  return { end: readEnd(reader, first.value), leave: () => void reader.cancel() };
}

async function readEnd(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  first: Uint8Array | undefined,
): Promise<StreamEnd> {
  const decoder = new TextDecoder();
  let text = decoder.decode(first, { stream: true });
  let broken: Error | null = null;
  try {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read())
      text += decoder.decode(piece.value, { stream: true });
  } catch (error) {
    broken = error as Error;
  }
  const lines = text.split('\n\n').filter((line) => line !== '');
  const received = lines
    .filter((line) => line.startsWith('data: {') && line.endsWith('}'))
    .map((line) => JSON.parse(line.slice('data: '.length)) as Chunk);
  const errors = received.flatMap(({ error }) => (error === undefined ? [] : [error]));
  return {
    isDone: lines.at(-1) === 'data: [DONE]',
    error: errors[0] ?? null,
    numErrors: errors.length,
    broken,
    numChunks: received.length,
    numTokens: received.findLast(({ usage }) => usage != null)?.usage?.completion_tokens ?? null,
  };
}

interface Chunk {
  readonly error?: { readonly code: string; readonly message: string };
  readonly usage?: { readonly completion_tokens: number } | null;
}
