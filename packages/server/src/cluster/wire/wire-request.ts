import type { InferenceRequest, RequestOrigin } from '../../seams/contract/backends.ts';
import { REQUEST_ID } from '../../seams/network/request-id.ts';
import { readTraceParent } from '../../seams/tracing/trace-parent.ts';
import { REQUEST_FIELDS, REQUEST_NAMES } from './engine-protocol.ts';

/** A sampling request. Its adapter has digest and key, but no path, which is meaningless on another machine. */
export interface GenerateCall {
  readonly model: string;
  readonly request: InferenceRequest;
}

/** Converts to JSON. The seed becomes text, because JSON has no 64-bit integers. */
export function generateText({ model, request }: GenerateCall): string {
  const { isWhole: _ofTheAnswer, ...carried } = request;
  const { sampling, adapter } = carried;
  return JSON.stringify({
    model,
    request: {
      ...carried,
      sampling: { ...sampling, seed: sampling.seed?.toString() ?? null },
      adapter: adapter === null ? null : { digest: adapter.digest, directoryKey: adapter.directoryKey },
    },
  });
}

const FIELDS = Object.entries(REQUEST_FIELDS);
const TEXT_FIELDS = ['requestId', 'tenant'] as const;
/** Optional parts of a request, which may be null. */
const PARTS = ['reply', 'beamSearch', 'repetitionDetection'] as const;

/**
 * Inverse of {@link generateText}. Values are trusted here and checked later, like those of local requests; a
 * body that is not a request, or has unknown fields, is refused.
 * @throws {TypeError} with a message for the caller's log
 */
export function readGenerate(body: unknown): GenerateCall {
  const { model, request } = recordOf(body, 'the body');
  if (typeof model !== 'string') throw new TypeError('model must be text');
  const fields = recordOf(request, 'request');
  for (const name of TEXT_FIELDS) if (typeof fields[name] !== 'string') throw new TypeError(`${name} must be text`);
  for (const [name, standard] of FIELDS) {
    if (!(name in fields)) throw new TypeError(`${name} is missing`);
    const value = fields[name];
    if (standard !== null && value !== null && typeof value !== typeof standard)
      throw new TypeError(`${name} must be a ${typeof standard}, got a ${typeof value}`);
    if (Array.isArray(standard) && !Array.isArray(value)) throw new TypeError(`${name} must be a list`);
  }
  refuseUnknown(fields, REQUEST_NAMES.request, 'request');
  const prompt = recordOf(fields['prompt'], 'prompt');
  const names = REQUEST_NAMES.prompts[String(prompt['kind'])];
  if (names === undefined) throw new TypeError('prompt is of no known kind');
  refuseUnknown(prompt, names, 'prompt');
  for (const part of PARTS)
    if (fields[part] !== null) refuseUnknown(recordOf(fields[part], part), REQUEST_NAMES[part], part);
  const { seed, ...sampling } = recordOf(fields['sampling'], 'sampling');
  refuseUnknown(sampling, REQUEST_NAMES.sampling, 'sampling');
  if (seed !== null && (typeof seed !== 'string' || !/^-?\d{1,20}$/.test(seed)))
    throw new TypeError('the seed must be digits');
  const { origin } = fields;
  return {
    model,
    request: {
      ...(fields as unknown as InferenceRequest),
      ...(origin === undefined ? {} : { origin: readOrigin(recordOf(origin, 'origin')) }),
      sampling: { ...(sampling as unknown as InferenceRequest['sampling']), seed: seed === null ? null : BigInt(seed) },
      adapter: fields['adapter'] === null ? null : readAdapter(recordOf(fields['adapter'], 'adapter')),
    },
  };
}

/** A newer release would give it a meaning. */
function refuseUnknown(record: Readonly<Record<string, unknown>>, names: object, what: string): void {
  for (const name of Object.keys(record))
    if (!Object.hasOwn(names, name)) throw new TypeError(`${what}.${name} is not known to this release`);
}

/** Checked because it goes into the log. */
function readOrigin({ requestId, traceParent }: Readonly<Record<string, unknown>>): RequestOrigin {
  if (typeof requestId !== 'string' || !REQUEST_ID.test(requestId))
    throw new TypeError('origin.requestId must be printable');
  if (traceParent !== null && (typeof traceParent !== 'string' || readTraceParent(traceParent) === null))
    throw new TypeError('origin.traceParent must be that of a span');
  return { requestId, traceParent };
}

function readAdapter({ digest, directoryKey }: Readonly<Record<string, unknown>>): InferenceRequest['adapter'] {
  if (typeof digest !== 'string' || !/^[0-9a-f]{64}$/.test(digest))
    throw new TypeError('adapter.digest must be 64 digits');
  if (typeof directoryKey !== 'string') throw new TypeError('adapter.directoryKey must be text');
  return { digest, directoryKey, path: null };
}

/** @throws {TypeError} */
export function recordOf(value: unknown, what: string): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new TypeError(`${what} must be an object`);
  return value as Readonly<Record<string, unknown>>;
}
