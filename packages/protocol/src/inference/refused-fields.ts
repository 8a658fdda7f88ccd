/** A field that requests an unsupported feature. */
export interface RefusedField {
  /** Path of the field, such as `tools.0.defer_loading`. */
  readonly param: string;
  /** Replacement to send, or the reason why there is none. */
  readonly reason: string;
}

interface Refusal {
  readonly reason: string;
  /** Values without a request, in addition to null, false, 0, empty texts, lists and objects. */
  readonly harmless?: readonly unknown[];
}

/**
 * Fields of OpenAI or vLLM (as of 0.33) that would have no effect here: ignoring them would give misleading
 * answers. Fields unknown to both pass, as they do there.
 */
const REFUSED_FIELDS: Readonly<Record<string, Refusal>> = {
  functions: { reason: 'send `tools`' },
  function_call: { reason: 'send `tool_choice`', harmless: ['none'] },
  modalities: { reason: 'replies are text' },
  audio: { reason: 'replies are text' },
  web_search_options: { reason: 'nothing is searched' },
  extra_body: { reason: 'it is an option of the Python client; send its members in the body itself' },
  watermarking: { reason: 'replies carry no watermark' },
  return_token_offsets: { reason: 'there is no rendering route; `return_token_ids` gives the ids' },
  mm_payload: { reason: 'there is no rendering route', harmless: ['tensors'] },
  return_weight_versions: { reason: '`model` of the answer names the sampled version' },
  routed_experts_prompt_start: { reason: 'no routing of experts is returned' },
};

const REFUSED_COMPLETION_FIELDS: Readonly<Record<string, Refusal>> = {
  thinking_token_budget: { reason: 'only chat completions separate thoughts from the text', harmless: [-1] },
};

/**
 * Removed from vLLM, which ignores them and so answers without the constraint. Next to `structured_outputs`
 * they are meant for older servers, and the constraint applies anyway.
 */
const REMOVED_FIELD_PREFIX = 'guided_';

/** The first unsupported field of a chat or text completion; null if there is none. */
export function refusedField(body: Readonly<Record<string, unknown>>): RefusedField | null {
  const isChat = Object.hasOwn(body, 'messages');
  const refusals = isChat ? REFUSED_FIELDS : { ...REFUSED_FIELDS, ...REFUSED_COMPLETION_FIELDS };
  for (const [param, value] of Object.entries(body)) {
    if (asksForNothing(value)) continue;
    if (param.startsWith(REMOVED_FIELD_PREFIX) && asksForNothing(body['structured_outputs']))
      return { param, reason: 'send `structured_outputs`' };
    const refusal = Object.hasOwn(refusals, param) ? refusals[param] : undefined;
    if (refusal && !isHarmless(param, value, refusal)) return { param, reason: refusal.reason };
  }
  return refusedMember(body);
}

function isHarmless(param: string, value: unknown, { harmless = [] }: Refusal): boolean {
  if (param === 'modalities') return Array.isArray(value) && value.every((modality) => modality === 'text');
  return harmless.includes(value);
}

/** The first unsupported field within another field. */
function refusedMember(body: Readonly<Record<string, unknown>>): RefusedField | null {
  const { kv_transfer_params: transfer, tools } = body;
  if (isObject(transfer) && !asksForNothing(transfer['prompt_token_ids']))
    return {
      param: 'kv_transfer_params.prompt_token_ids',
      reason: 'chat completions render their messages; send ids to `/v1/completions`',
    };
  if (!Array.isArray(tools)) return null;
  for (const [index, tool] of tools.entries()) {
    if (!isObject(tool)) continue;
    const reason = 'the model sees all tools from the start';
    if (!asksForNothing(tool['defer_loading'])) return { param: `tools.${index}.defer_loading`, reason };
    if (isObject(tool['function']) && !asksForNothing(tool['function']['defer_loading']))
      return { param: `tools.${index}.function.defer_loading`, reason };
  }
  return null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** True for values without a request: null, false, 0, empty texts, lists and objects. */
export function asksForNothing(value: unknown): boolean {
  if (value === undefined || value === null || value === false || value === '' || value === 0) return true;
  if (typeof value !== 'object') return false;
  // The keys of a list of millions would be as many strings.
  if (Array.isArray(value)) return value.length === 0;
  for (const _name in value) return false;
  return true;
}
