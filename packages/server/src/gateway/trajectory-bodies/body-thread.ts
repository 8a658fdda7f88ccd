/**
 * Main module of the body thread: parses, checks and writes large bodies, so that the event loop of the API
 * never waits for them.
 * Bodies arrive in chunks, several at a time; one at a time is parsed and held as objects, in the order in
 * which they were complete.
 */
import { parentPort, workerData } from 'node:worker_threads';

import { type Blobs, openBlobs } from '@trainyard/store';

import type { FindRecords } from '../../training-data/choice-records/wanted-records.ts';
import type { SampledTokens } from '../../training-data/wire/recorded-choice.ts';
import type { BodyThreadCommand, BodyThreadMessage, BodyThreadOptions } from './messages.ts';
import { fromThreadFailure, toThreadFailure } from './thread-failure.ts';
import { ParsedTrajectoryBody, type StoreGroupsOptions, type TrajectoryBodyKind } from './trajectory-body.ts';

/** Chunks of each incomplete body. */
const pieces = new Map<number, Uint8Array[]>();
const complete: { id: number; kind: TrajectoryBodyKind; bytes: Uint8Array[] }[] = [];
let current: { id: number; body: ParsedTrajectoryBody<TrajectoryBodyKind>; isStoring: boolean } | null = null;
/** Query to the API's thread that waits for its answer. */
let asked: PromiseWithResolvers<ReadonlyMap<string, SampledTokens>> | null = null;

const port = parentPort;
if (port === null) throw new Error('the body thread is started by the service, not by hand');
let opening: Promise<Blobs> | null = null;
port.on('message', (command: BodyThreadCommand) => {
  switch (command.kind) {
    case 'chunk':
      addPiece(command.id, command.bytes);
      break;
    case 'open':
      void open(command.id);
      break;
    case 'end':
      complete.push({ id: command.id, kind: command.bodyKind, bytes: pieces.get(command.id) ?? [] });
      pieces.delete(command.id);
      parseNext();
      break;
    case 'store':
      void store(command.id, command.options, command.findsRecords);
      break;
    case 'found':
      asked?.resolve(command.records);
      break;
    case 'find_failed':
      asked?.reject(fromThreadFailure(command.failure));
      break;
    case 'discard':
      forget(command.id);
      break;
    default:
      command satisfies never;
  }
});

/**
 * Blobs, opened at the first call and again after a failure: an unavailable bucket comes back.
 * @throws {StoreError} `store.unavailable`
 */
function ownBlobs(): Promise<Blobs> {
  opening ??= openBlobs((workerData as BodyThreadOptions).blobs).catch((error: unknown) => {
    opening = null;
    throw error;
  });
  return opening;
}

async function open(id: number): Promise<void> {
  try {
    await ownBlobs();
    send({ kind: 'opened', id });
  } catch (error) {
    send({ kind: 'failed', id, failure: toThreadFailure(error) });
  }
}

function addPiece(id: number, bytes: Uint8Array): void {
  const known = pieces.get(id);
  if (known === undefined) pieces.set(id, [bytes]);
  else known.push(bytes);
}

function parseNext(): void {
  for (let next = current === null ? complete.shift() : undefined; next !== undefined; next = complete.shift()) {
    try {
      const body = ParsedTrajectoryBody.parse(joined(next.bytes), next.kind, ownBlobs);
      current = { id: next.id, body, isStoring: false };
      send({ kind: 'parsed', id: next.id, summary: body.summary });
      return;
    } catch (error) {
      send({ kind: 'failed', id: next.id, failure: toThreadFailure(error) });
    }
  }
}

async function store(id: number, options: StoreGroupsOptions, findsRecords: boolean): Promise<void> {
  if (current?.id !== id) return;
  current.isStoring = true;
  try {
    const find: FindRecords | null = findsRecords ? (recordIds) => ask(id, recordIds) : null;
    send({ kind: 'stored', id, stored: await current.body.store(options, find) });
  } catch (error) {
    send({ kind: 'failed', id, failure: toThreadFailure(error) });
  }
  current = null;
  parseNext();
}

/** The store is open in the API's thread, which also knows the body's owner. */
function ask(id: number, recordIds: readonly string[]): ReturnType<FindRecords> {
  asked = Promise.withResolvers();
  send({ kind: 'find', id, recordIds });
  return asked.promise;
}

function forget(id: number): void {
  pieces.delete(id);
  const place = complete.findIndex((body) => body.id === id);
  if (place !== -1) complete.splice(place, 1);
  if (current?.id !== id || current.isStoring) return;
  current = null;
  parseNext();
}

/** Frees the chunks, so that a body is not held three times. */
function joined(pieces: Uint8Array[]): Buffer {
  const whole = Buffer.concat(pieces);
  pieces.length = 0;
  return whole;
}

function send(message: BodyThreadMessage): void {
  port?.postMessage(message);
}
