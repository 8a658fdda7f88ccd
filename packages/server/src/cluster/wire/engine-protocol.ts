import { createHash } from 'node:crypto';

import {
  type ConstraintSpec,
  DEFAULT_GENERATE,
  type Prompt,
  type ReplyReading,
  type WhitespaceOption,
} from '@trainyard/generation';
import { type RepetitionDetection, SAMPLING_FIELDS } from '@trainyard/protocol/fields';

import type { InferenceRequest } from '../../seams/contract/backends.ts';

/** Increase it when a part of the wire format changes its meaning. */
const WIRE_NUMBER = 3;

/** All names of an object, including optional ones: a missing one does not compile. */
type NamesOf<Part> = { readonly [Name in keyof Required<Part>]: true };
/** All kinds of a union with the names of each. */
type NamesOfKinds<Union extends { readonly kind: string }> = {
  readonly [Kind in Union['kind']]: NamesOf<Extract<Union, { readonly kind: Kind }>>;
};

const PROMPTS: NamesOfKinds<Prompt> = {
  chat: {
    kind: true,
    messages: true,
    tools: true,
    toolsText: true,
    templateVariables: true,
    templateVariablesText: true,
    addGenerationPrompt: true,
    continueFinalMessage: true,
    addSpecialTokens: true,
    chatTemplate: true,
  },
  text: { kind: true, text: true, addSpecialTokens: true },
  tokens: { kind: true, tokenIds: true },
};
const REPLY: NamesOf<ReplyReading> = { tools: true, toolsText: true, toolChoice: true, parallelToolCalls: true };
const TOOL_CHOICES: Readonly<Record<Extract<ReplyReading['toolChoice'], string>, true>> = {
  none: true,
  auto: true,
  required: true,
};
const BEAM_SEARCH: NamesOf<NonNullable<InferenceRequest['beamSearch']>> = { lengthPenalty: true };
const REPETITION: NamesOf<RepetitionDetection> = { maxPatternSize: true, minPatternSize: true, minCount: true };
const CONSTRAINTS: NamesOfKinds<ConstraintSpec> = {
  json_schema: { kind: true, schema: true, whitespace: true, closesObjects: true, isRelaxed: true },
  json_object: { kind: true, whitespace: true },
  regex: { kind: true, pattern: true },
  choice: { kind: true, choices: true },
  grammar: { kind: true, source: true },
  structural_tag: { kind: true, tag: true },
  either: { kind: true, options: true },
};
const WHITESPACE: NamesOfKinds<WhitespaceOption> = {
  capped: { kind: true },
  none: { kind: true },
  pattern: { kind: true, pattern: true },
};

// The origin has the span that counts.
const { traceParent: _inOrigin, ...CARRIED } = DEFAULT_GENERATE;
export const REQUEST_FIELDS: Readonly<Record<string, unknown>> = CARRIED;

/** Allowed names of the parts of a request; for a prompt by its kind. */
export const REQUEST_NAMES = {
  request: { ...asNames(DEFAULT_GENERATE), requestId: true, tenant: true, prompt: true, origin: true },
  sampling: asNames(DEFAULT_GENERATE.sampling),
  prompts: PROMPTS as Readonly<Record<string, Readonly<Record<string, true>>>>,
  reply: REPLY,
  beamSearch: BEAM_SEARCH,
  repetitionDetection: REPETITION,
} as const;

/** A parameter of requests, as in `SAMPLING_FIELDS`. */
export interface ProtocolField {
  readonly name?: string;
  /** Values on HTTP; also within the service, unless `param` overrides them. */
  readonly form: object;
  readonly param?: object;
}

/**
 * Name of the protocol, derived from the contents of requests: field names at every depth, kinds, and the
 * values of each parameter. So an engine that would ignore a field, or misread a value, has another protocol.
 */
export function protocolOf(fields: Readonly<Record<string, ProtocolField>>): string {
  const values = Object.values(fields).flatMap(({ name, form, param = form }) =>
    name === undefined ? [] : [[name, param]],
  );
  const parts = [REQUEST_NAMES, TOOL_CHOICES, CONSTRAINTS, WHITESPACE, Object.fromEntries(values)];
  return `${WIRE_NUMBER}-${createHash('sha256').update(JSON.stringify(parts, inOrder)).digest('hex').slice(0, 12)}`;
}

/** Must be equal on both ends: a release with other requests automatically has another protocol. */
export const ENGINE_PROTOCOL = protocolOf(SAMPLING_FIELDS);

function asNames(record: object): Readonly<Record<string, true>> {
  return Object.fromEntries(Object.keys(record).map((name) => [name, true]));
}

/** The order of a table's rows has no meaning. */
function inOrder(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1)));
}
