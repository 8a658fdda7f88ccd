import type { NetworkPart } from './network-parts.ts';

/** How a stream ended, as its client saw it. */
export interface StreamEnd {
  /** Its last line was `[DONE]`. */
  readonly isDone: boolean;
  /** the error that the stream told; null when it told none */
  readonly error: { readonly code: string; readonly message: string } | null;
  /** errors that it told; more than one would be too many */
  readonly numErrors: number;
  /** the error of the connection; null when it ended in order */
  readonly broken: Error | null;
  readonly numChunks: number;
  /** completion tokens, as its last chunk with usage says; null without one */
  readonly numTokens: number | null;
}

/**
 * A streamed chat that has begun.
 * @param body of the request
 * @returns its end, which settles whatever happens, and what leaves it
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
  const told = lines
    .filter((line) => line.startsWith('data: {') && line.endsWith('}'))
    .map((line) => JSON.parse(line.slice('data: '.length)) as Chunk);
  const errors = told.flatMap(({ error }) => (error === undefined ? [] : [error]));
  return {
    isDone: lines.at(-1) === 'data: [DONE]',
    error: errors[0] ?? null,
    numErrors: errors.length,
    broken,
    numChunks: told.length,
    numTokens: told.findLast(({ usage }) => usage != null)?.usage?.completion_tokens ?? null,
  };
}

interface Chunk {
  readonly error?: { readonly code: string; readonly message: string };
  readonly usage?: { readonly completion_tokens: number } | null;
}
