import { GUESTS, type Guest } from '@trainyard/generation/testing';

/** Back end of the whole service in this test run, see `guests.ts`; null = the engine, stepped by its text. */
export const GUEST = guestOf(process.env['TRAINYARD_TEST_GUEST'] ?? null);

const CONSTRAINTS = ['structured_outputs', 'response_format', 'tools', 'tool_choice', 'thinking_token_budget'];

/** Fields that each of them may refuse. Everything else must work as with the engine. */
const MAY_REFUSE: Readonly<Record<Guest, readonly string[]>> = {
  along: CONSTRAINTS,
  specs: CONSTRAINTS,
  little: [
    ...CONSTRAINTS,
    'allowed_token_ids',
    'bad_words',
    'logprob_token_ids',
    'logprobs_mode',
    'priority',
    'prompt_logprobs',
    'repetition_detection',
    'use_beam_search',
    'echo',
  ],
  vllm: [...CONSTRAINTS, 'bad_words', 'logprobs_mode', 'top_n_sigma', 'use_beam_search'],
};

function guestOf(name: string | null): Guest | null {
  const guest = GUESTS.find((known) => known === name) ?? null;
  if (name !== null && guest === null) throw new Error(`no guest is called ${name}; known: ${GUESTS.join(', ')}`);
  return guest;
}

/**
 * A request was refused for one of its fields that the back end does not support: the rest of its test is
 * about that field.
 */
export class GuestRefusal extends Error {}

/** @throws {GuestRefusal} if the answer is such a refusal. @param body of the request */
export function noticeRefusal(body: unknown, answer: { statusCode: number; body: string }): void {
  if (GUEST === null || answer.statusCode !== 400 || !answer.body.includes('is not supported by this sampling backend'))
    return;
  const { param } = (JSON.parse(answer.body) as { error: { param: string } }).error;
  const isSent = typeof body === 'object' && body !== null && param in body;
  if (isSent && MAY_REFUSE[GUEST].includes(param)) throw new GuestRefusal(`${GUEST} refuses ${param}`);
}
