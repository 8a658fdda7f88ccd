import { DEFAULT_SAMPLE, type SampleParams, type TokenBackend } from '@trainyard/backend';
import { DEFAULT_SAMPLING } from '@trainyard/protocol/fields';

export class FakeRefusal extends Error {
  override readonly name = 'FakeRefusal';
  readonly status: number;
  readonly type: string;
  readonly param: string | null;

  constructor(status: number, type: string, message: string, param: string | null) {
    super(message);
    this.status = status;
    this.type = type;
    this.param = param;
  }
}

export interface FakeLimits {
  readonly brain: TokenBackend;
  readonly maxLogprobs: number;
  readonly logprobsMode: 'raw' | 'processed' | 'logits';
  readonly policy: 'fcfs' | 'priority';
}

export interface FakeRequest {
  readonly tokenIds: readonly number[];
  readonly params: SampleParams;
  readonly isStreamed: boolean;
}

type Body = Readonly<Record<string, unknown>>;

/** Reads a completion like vLLM, with its quirks. @throws {FakeRefusal} with vLLM's message */
export function readFakeRequest(body: Body, limits: FakeLimits): FakeRequest {
  const { contextLength, vocabSize } = limits.brain.models[0]!;
  const tokenIds = body['prompt'] as readonly number[];
  const isStreamed = body['stream'] === true;
  checkCounts(body, limits, isStreamed);
  const maxTokens = (body['max_tokens'] as number | undefined) ?? 16;
  if (tokenIds.length + maxTokens > contextLength) {
    const words = `This model's maximum context length is ${contextLength} tokens. However, you requested ${maxTokens} output tokens and your prompt contains ${tokenIds.length} input tokens`;
    throw new FakeRefusal(400, 'BadRequestError', words, 'input_tokens');
  }
  const bias = Object.entries((body['logit_bias'] ?? {}) as Record<string, number>);
  const biasById = new Map(bias.map(([id, value]) => [Number(id), value]));
  const foreign = [...biasById.keys()].filter((id) => id >= vocabSize);
  if (foreign.length > 0) {
    const words = `token_id(s) [${foreign.join(', ')}] in logit_bias contain out-of-vocab token ids. Vocabulary size: ${vocabSize}`;
    throw new FakeRefusal(400, 'BadRequestError', words, 'logit_bias');
  }
  const temperature = (body['temperature'] as number | undefined) ?? 1;
  const n = (body['n'] as number | undefined) ?? 1;
  if (temperature === 0 && n > 1)
    throw new FakeRefusal(400, 'BadRequestError', `n must be 1 when using greedy sampling, got ${n}.`, null);
  const { logprobsMode } = limits;
  return {
    tokenIds,
    isStreamed,
    params: {
      ...DEFAULT_SAMPLE,
      tenant: (body['cache_salt'] as string | undefined) ?? '',
      adapter: null,
      n,
      maxTokens,
      minTokens: (body['min_tokens'] as number | undefined) ?? 0,
      stopTokenIds: (body['stop_token_ids'] as number[] | undefined) ?? [],
      ignoreEos: body['ignore_eos'] === true,
      priority: (body['priority'] as number | undefined) ?? 0,
      logprobs: (body['logprobs'] as number | undefined) ?? null,
      logprobTokenIds: (body['logprob_token_ids'] as number[] | undefined) ?? null,
      logprobsMode: logprobsMode === 'processed' ? 'processed' : 'raw',
      promptLogprobs: (body['prompt_logprobs'] as number | undefined) ?? null,
      allowedTokenIds: (body['allowed_token_ids'] as number[] | undefined) ?? null,
      repetitionDetection: repetitionOf(body['repetition_detection'] as Record<string, number> | undefined),
      bannedSequences: [],
      constraint: constraintOf(body['structured_outputs'] as Body | undefined),
      text: null,
      sampling: {
        ...DEFAULT_SAMPLING,
        temperature,
        seed: typeof body['seed'] === 'number' ? BigInt(body['seed']) : null,
        logitBias: [...biasById],
        topP: (body['top_p'] as number | undefined) ?? 1,
        topK: Math.max((body['top_k'] as number | undefined) ?? 0, 0),
        minP: (body['min_p'] as number | undefined) ?? 0,
        repetitionPenalty: (body['repetition_penalty'] as number | undefined) ?? 1,
        presencePenalty: (body['presence_penalty'] as number | undefined) ?? 0,
        frequencyPenalty: (body['frequency_penalty'] as number | undefined) ?? 0,
      },
    },
  };
}

function checkCounts(body: Body, { maxLogprobs, brain, policy }: FakeLimits, isStreamed: boolean): void {
  const { vocabSize } = brain.models[0]!;
  for (const [field, kind] of [
    ['logprobs', 'sample'],
    ['prompt_logprobs', 'prompt'],
  ] as const) {
    const asked = body[field] as number | undefined;
    const count = asked === -1 ? vocabSize : (asked ?? 0);
    if (count <= maxLogprobs) continue;
    const words = `Requested ${kind} logprobs of ${count}, which is greater than max allowed: ${maxLogprobs}`;
    throw new FakeRefusal(400, 'BadRequestError', words, field);
  }
  if (isStreamed && (body['prompt_logprobs'] ?? 0) !== 0)
    throw new FakeRefusal(
      400,
      'BadRequestError',
      '`prompt_logprobs` are not available when `stream=True`.',
      'prompt_logprobs',
    );
  if ((body['priority'] ?? 0) !== 0 && policy !== 'priority')
    throw new FakeRefusal(
      400,
      'BadRequestError',
      `Got priority ${String(body['priority'])} but Priority scheduling is not enabled.`,
      null,
    );
}

function repetitionOf(asked: Record<string, number> | undefined): SampleParams['repetitionDetection'] {
  if (asked === undefined) return null;
  const { max_pattern_size: maxPatternSize = 0, min_pattern_size: minPatternSize = 0, min_count: minCount = 0 } = asked;
  return { maxPatternSize, minPatternSize, minCount };
}

/** First kind present, as a spec for the brain's constraints. */
function constraintOf(outputs: Body | undefined): SampleParams['constraint'] {
  if (outputs === undefined) return null;
  const whitespace = { kind: 'capped' };
  if ('json' in outputs) {
    const schema = outputs['json'];
    // vLLM's back ends drop keywords that they do not enforce; they do enforce numbers of properties, which
    // the brain's relaxed schemas do not.
    const parsed: unknown = typeof schema === 'string' ? JSON.parse(schema) : schema;
    const isRelaxed = typeof parsed !== 'object' || !('maxProperties' in parsed!);
    return spec({ kind: 'json_schema', schema, whitespace, closesObjects: false, isRelaxed });
  }
  if ('json_object' in outputs) return spec({ kind: 'json_object', whitespace });
  if ('regex' in outputs) return spec({ kind: 'regex', pattern: outputs['regex'] });
  if ('choice' in outputs) return spec({ kind: 'choice', choices: outputs['choice'] });
  if ('grammar' in outputs) return spec({ kind: 'grammar', source: outputs['grammar'] });
  return spec({ kind: 'structural_tag', tag: outputs['structural_tag'] });
}

function spec(fields: { readonly kind: string } & Body): { readonly kind: string } {
  return fields;
}
