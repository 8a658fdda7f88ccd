import type { EngineEvent } from '@trainyard/generation';

type Finished = Extract<EngineEvent, { kind: 'finished' }>;
type Trace = NonNullable<NonNullable<Finished['sampling']>['trace']>;

/**
 * One event as JSON, with the arrays of a trace as base64. All numbers round-trip exactly except −0, which
 * becomes 0, as in every answer.
 */
export function eventText(event: EngineEvent): string {
  const trace = event.kind === 'finished' ? event.sampling?.trace : null;
  if (trace === null || trace === undefined) return JSON.stringify(event);
  const { logprobs, kept } = trace;
  const asText = { logprobs: base64(logprobs), kept: base64(kept) };
  return JSON.stringify({ ...event, sampling: { ...(event as Finished).sampling, trace: asText } });
}

export function eventsText(texts: readonly string[]): string {
  return `[${texts.join(',')}]`;
}

/**
 * Events of several requests that are sent together, each with its request id. Prompt ids are sent as bytes:
 * as digits they would be most of the work for a short answer.
 * @param events their request ids are internal and contain no quotes
 */
export function requestEventsText(events: readonly (readonly [requestId: string, event: EngineEvent])[]): string {
  return `[${events.map(([requestId, event]) => `["${requestId}",${event.kind === 'started' ? startedText(event) : eventText(event)}]`).join(',')}]`;
}

/** Inverse of {@link requestEventsText}. @param text trusted: a host of this service wrote it */
export function readRequestEvents(text: string): (readonly [requestId: string, event: EngineEvent])[] {
  const events = JSON.parse(text) as [string, EngineEvent | StartedText][];
  return events.map(([requestId, event]) => [
    requestId,
    event.kind === 'started' ? readStarted(event as StartedText) : readEvent(event),
  ]);
}

type Started = Extract<EngineEvent, { kind: 'started' }>;
type StartedText = Omit<Started, 'promptTokenIds'> & { readonly promptTokenIds: string };

/**
 * Shared buffer, as large as the largest prompt so far: a new buffer per prompt would trigger garbage
 * collection often.
 */
let scratch = Buffer.alloc(65_536);

function scratchOf(numBytes: number): Buffer {
  if (scratch.length < numBytes) scratch = Buffer.alloc(2 * numBytes);
  return scratch;
}

function startedText({ promptTokenIds, ...event }: Started): string {
  const numBytes = promptTokenIds.length * Int32Array.BYTES_PER_ELEMENT;
  const bytes = scratchOf(numBytes);
  let at = 0;
  for (const id of promptTokenIds) at = bytes.writeInt32LE(id, at);
  return JSON.stringify({ ...event, promptTokenIds: bytes.toString('base64', 0, numBytes) });
}

function readStarted({ promptTokenIds: text, ...event }: StartedText): Started {
  const bytes = scratchOf(text.length);
  const numBytes = bytes.write(text, 'base64');
  const promptTokenIds: number[] = [];
  for (let at = 0; at < numBytes; at += Int32Array.BYTES_PER_ELEMENT) promptTokenIds.push(bytes.readInt32LE(at));
  return { ...event, promptTokenIds };
}

/** @throws {SyntaxError} if the text is not a list of events */
export function readEvents(text: string): EngineEvent[] {
  const events: unknown = JSON.parse(text);
  if (!Array.isArray(events)) throw new SyntaxError('a line is not a list of events');
  return events.map((event) => readEvent(event));
}

function readEvent(event: unknown): EngineEvent {
  if (typeof event !== 'object' || event === null || !('kind' in event)) throw new SyntaxError('not an event');
  const read = event as EngineEvent;
  if (read.kind !== 'finished' || read.sampling === null || read.sampling === undefined) return read;
  const { trace } = read.sampling as unknown as { trace: { logprobs: string; kept: string } | null };
  if (trace === null) return read;
  return { ...read, sampling: { ...read.sampling, trace: readTrace(trace) } };
}

function readTrace({ logprobs, kept }: { logprobs: string; kept: string }): Trace {
  // Copied, because a Float32Array must start at a multiple of four.
  const bytes = Uint8Array.from(Buffer.from(logprobs, 'base64'));
  return { logprobs: new Float32Array(bytes.buffer), kept: Uint8Array.from(Buffer.from(kept, 'base64')) };
}

function base64({ buffer, byteOffset, byteLength }: Float32Array | Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('base64');
}
