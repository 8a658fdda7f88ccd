import { createHash } from 'node:crypto';

import { type EndTokens, type EngineError, refusal, type SampleParams, type SamplingParams } from '@trainyard/backend';
import { DEFAULT_SAMPLING, isLogitsMode, naming } from '@trainyard/protocol/fields';
import { structuredOutputs } from './structured-outputs.ts';

/** Facts that shape a request, in addition to its fields. */
export interface RequestContext {
  /** Maximum length of prompt and reply together, tokens. */
  readonly contextLength: number;
  readonly numPromptTokens: number;
  readonly ends: EndTokens;
  /** Distribution of the server's log-probabilities. */
  readonly logprobsMode: 'raw' | 'processed';
  readonly maxLogprobs: number;
  readonly vocabSize: number;
}

/** Name of a parameter of a sample; `sampling` is expanded. */
export type ParamName = Exclude<keyof SampleParams, 'sampling'> | keyof SamplingParams;

/** Mapping of one parameter to vLLM. */
export type FieldMapping =
  | {
      readonly kind: 'sent';
      /** Fields of vLLM's request that it becomes. */
      readonly as: readonly string[];
      /** @throws {EngineError} engine.invalid_request for a value that vLLM cannot express */
      put(params: SampleParams, context: RequestContext): Record<string, unknown>;
    }
  /** Unsupported by vLLM, or with the data available here. */
  | { readonly kind: 'refused'; readonly why: string; isAsked(params: SampleParams): boolean }
  /** Not a field of vLLM's request; `by` names the part that handles it. */
  | { readonly kind: 'handled'; readonly by: string };

/** Writes JSON numbers of 64 bits, which a double cannot hold. */
const { rawJSON } = JSON as unknown as { readonly rawJSON: (text: string) => unknown };

const MAX_SEED = 2n ** 63n - 1n;

/** Fields of sampling parameters that are sent unchanged. */
const SAMPLING_FIELDS = {
  temperature: 'temperature',
  topP: 'top_p',
  topK: 'top_k',
  minP: 'min_p',
  repetitionPenalty: 'repetition_penalty',
  presencePenalty: 'presence_penalty',
  frequencyPenalty: 'frequency_penalty',
} as const satisfies Partial<Record<keyof SamplingParams, string>>;

/** Fields for the distribution of the model itself, with any defaults of the server. */
export const PLAIN_SAMPLING: Readonly<Record<string, unknown>> = Object.fromEntries(
  Object.entries(SAMPLING_FIELDS).map(([name, as]) => [as, DEFAULT_SAMPLING[name as keyof typeof SAMPLING_FIELDS]]),
);

function sampling(name: keyof typeof SAMPLING_FIELDS): FieldMapping {
  const as = SAMPLING_FIELDS[name];
  return { kind: 'sent', as: [as], put: (params) => ({ [as]: params.sampling[name] }) };
}

/**
 * Mapping of every parameter. Values that are defaults here are sent, too: the server's defaults come from
 * the model's `generation_config.json`, and `max_tokens` would be 16.
 */
export const REQUEST_FIELDS: { readonly [Name in ParamName]: FieldMapping } = {
  temperature: sampling('temperature'),
  topP: sampling('topP'),
  topK: sampling('topK'),
  minP: sampling('minP'),
  repetitionPenalty: sampling('repetitionPenalty'),
  presencePenalty: sampling('presencePenalty'),
  frequencyPenalty: sampling('frequencyPenalty'),
  topNSigma: {
    kind: 'refused',
    why: 'vLLM has no such truncation',
    isAsked: ({ sampling: { topNSigma } }) => topNSigma !== DEFAULT_SAMPLING.topNSigma,
  },
  logitBias: {
    kind: 'sent',
    as: ['logit_bias'],
    put: ({ sampling: { logitBias } }) => (logitBias.length === 0 ? {} : { logit_bias: Object.fromEntries(logitBias) }),
  },
  // Sent only if requested: vLLM on CPUs crashes on a seeded request whose prompt it computes in parts.
  seed: {
    kind: 'sent',
    as: ['seed'],
    put: ({ n, sampling: { seed, temperature } }) => {
      if (seed === null || temperature === 0) return {};
      if (seed + BigInt(n - 1) > MAX_SEED)
        throw refusal(
          'seed',
          naming`${{ field: 'seed' }} must leave room for ${n} choices below 2^63, got ${String(seed)}`,
        );
      return { seed: rawJSON(String(seed)) };
    },
  },
  n: {
    kind: 'sent',
    as: ['n'],
    put: ({ n, sampling: { temperature } }) => {
      if (n > 1 && temperature === 0)
        throw refusal('n', naming`${{ field: 'n' }} must be 1 with ${{ field: 'temperature' }} 0, got ${n}`);
      return { n };
    },
  },
  maxTokens: {
    kind: 'sent',
    as: ['max_tokens'],
    put: ({ maxTokens }, context) => ({ max_tokens: Math.min(maxTokens ?? Infinity, freeTokens(context)) }),
  },
  minTokens: {
    kind: 'sent',
    as: ['min_tokens'],
    put: ({ minTokens, maxTokens }, context) => ({
      min_tokens: Math.min(minTokens, maxTokens ?? Infinity, freeTokens(context)),
    }),
  },
  ignoreEos: { kind: 'sent', as: ['ignore_eos'], put: ({ ignoreEos }) => ({ ignore_eos: ignoreEos }) },
  // The server's own end tokens may be fewer than those of the vocabulary here.
  stopTokenIds: {
    kind: 'sent',
    as: ['stop_token_ids'],
    put: (params, { ends }) => {
      const all = stopIdsOf(params, ends);
      return all.length === 0 ? {} : { stop_token_ids: all };
    },
  },
  allowedTokenIds: {
    kind: 'sent',
    as: ['allowed_token_ids'],
    put: ({ allowedTokenIds }) => (allowedTokenIds === null ? {} : { allowed_token_ids: allowedTokenIds }),
  },
  logprobs: {
    kind: 'sent',
    as: ['logprobs', 'return_tokens_as_token_ids'],
    put: ({ logprobs }, context) => {
      if (logprobs === null) return {};
      checkLogprobs('logprobs', logprobs, context);
      return logprobFields(logprobs);
    },
  },
  logprobTokenIds: {
    kind: 'sent',
    as: ['logprob_token_ids'],
    put: ({ logprobTokenIds }) => (logprobTokenIds === null ? {} : { logprob_token_ids: logprobTokenIds }),
  },
  logprobsMode: {
    kind: 'sent',
    as: [],
    put: (params, { logprobsMode }) => {
      if (params.logprobs === null || params.logprobsMode === logprobsMode) return {};
      if (isLogitsMode(params.logprobsMode))
        throw unsupported('logprobsMode', 'the vLLM server returns log-probabilities, which training needs');
      if (drawsPlainly(params)) return {};
      const flag = `--logprobs-mode ${params.logprobsMode}_logprobs`;
      throw unsupported(
        'logprobsMode',
        `the vLLM server returns only ${logprobsMode} ones; start it with ${flag} to get these`,
      );
    },
  },
  promptLogprobs: {
    kind: 'handled',
    by: 'a separate request before the sample, because vLLM does not stream them: its field `prompt_logprobs`',
  },
  promptLogprobsFirst: { kind: 'handled', by: 'the order of the scores here' },
  repetitionDetection: {
    kind: 'sent',
    as: ['repetition_detection'],
    put: ({ repetitionDetection: asked }) =>
      asked === null || asked.maxPatternSize === 0
        ? {}
        : {
            repetition_detection: {
              max_pattern_size: asked.maxPatternSize,
              min_pattern_size: asked.minPatternSize,
              min_count: asked.minCount,
            },
          },
  },
  constraint: {
    kind: 'sent',
    as: ['structured_outputs'],
    put: ({ constraint }) => (constraint === null ? {} : { structured_outputs: structuredOutputs(constraint) }),
  },
  bannedSequences: {
    kind: 'refused',
    why: 'vLLM bans texts, not tokens, and tokenises them in its own way',
    isAsked: ({ bannedSequences }) => bannedSequences.length > 0,
  },
  beamSearch: {
    kind: 'refused',
    why: 'vLLM runs a beam search as a chain of requests that it does not stream',
    isAsked: ({ beamSearch }) => beamSearch !== null,
  },
  priority: {
    kind: 'sent',
    as: ['priority'],
    put: ({ priority }) => (priority === 0 ? {} : { priority }),
  },
  tenant: { kind: 'handled', by: 'the salt, with `cacheSalt` and the adapter' },
  cacheSalt: { kind: 'sent', as: ['cache_salt'], put: (params) => ({ cache_salt: saltOf(params) }) },
  adapter: { kind: 'handled', by: 'the name of the model: an adapter has its digest as its name' },
  includeStopString: { kind: 'handled', by: 'the reader of the tokens: all of them are reported' },
  tracesSampling: { kind: 'handled', by: 'the number of requested log-probabilities, and `DrawReader`' },
  traceParent: { kind: 'handled', by: 'the header `traceparent`' },
  text: { kind: 'handled', by: 'the reader of the stream: no text is requested from vLLM' },
};

/**
 * Fields of vLLM's request for a sample, without prompt, model and stream.
 * @throws {EngineError} engine.invalid_request, naming the unsupported feature
 */
export function requestFields(params: SampleParams, context: RequestContext): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const [name, mapping] of Object.entries(REQUEST_FIELDS)) {
    if (mapping.kind === 'sent') Object.assign(fields, mapping.put(params, context));
    else if (mapping.kind === 'refused' && mapping.isAsked(params)) throw unsupported(name, mapping.why);
  }
  return fields;
}

/**
 * Namespace in which prompts share memory on the server: 43 characters of base64url, without any separator of
 * vLLM or its keys.
 */
export function saltOf({ tenant, cacheSalt, adapter }: Pick<SampleParams, 'tenant' | 'cacheSalt' | 'adapter'>): string {
  return createHash('sha256')
    .update(JSON.stringify([tenant, cacheSalt, adapter]))
    .digest('base64url');
}

/** @param count -1 = the whole vocabulary @throws {EngineError} engine.invalid_request */
export function checkLogprobs(
  param: 'logprobs' | 'promptLogprobs',
  count: number,
  { maxLogprobs, vocabSize }: Pick<RequestContext, 'maxLogprobs' | 'vocabSize'>,
): void {
  const asked = count === -1 ? vocabSize : count;
  if (asked <= maxLogprobs) return;
  throw refusal(
    param,
    naming`${{ field: param }} must be at most ${maxLogprobs} here, got ${count}: this is the limit of the vLLM server (its flag --max-logprobs)`,
  );
}

function unsupported(param: string, why: string): EngineError {
  return refusal(param, naming`${{ field: param }} is not supported by this sampling backend: remove it (${why})`);
}

/** Names tokens by their ids, because their texts may be equal. */
export function logprobFields(logprobs: number): Record<string, unknown> {
  return { logprobs, return_tokens_as_token_ids: true };
}

/** Tokens that end a reply on the server, each once. */
export function stopIdsOf(
  { stopTokenIds, ignoreEos }: Pick<SampleParams, 'stopTokenIds' | 'ignoreEos'>,
  ends: EndTokens,
): readonly number[] {
  return [...new Set(ignoreEos ? stopTokenIds : [...stopTokenIds, ends.eosTokenId, ...ends.endTokenIds])];
}

function freeTokens({ contextLength, numPromptTokens }: RequestContext): number {
  return contextLength - numPromptTokens;
}

/** True if raw and processed log-probabilities are equal: vLLM does not divide by a temperature of 0. */
function drawsPlainly({ sampling: settings, minTokens, allowedTokenIds }: SampleParams): boolean {
  const { seed: _seed, logitBias, ...numbers } = settings;
  const plain = { ...DEFAULT_SAMPLING, temperature: numbers.temperature === 0 ? 0 : DEFAULT_SAMPLING.temperature };
  const isPlain = Object.entries(numbers).every(([name, value]) => value === plain[name as keyof typeof numbers]);
  return isPlain && logitBias.length === 0 && minTokens === 0 && allowedTokenIds === null;
}
