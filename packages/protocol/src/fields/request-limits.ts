/**
 * Bounds on what one request may cost the others: sizes are looked at before anything is made of them. None of them is a matter of taste; each
 * bounds work or memory that grows with it.
 */
export const REQUEST_LIMITS = {
  /** Choices: what the limit of the engine can be raised to. vLLM's limit. */
  choices: 16_384,
  stopStrings: 4,
  /** Stop strings, characters in all: each becomes a state. */
  stopCharacters: 16_384,
  stopTokenIds: 4096,
  /** Scored at every step. vLLM's limit. */
  logprobTokenIds: 128,
  badWords: 1024,
  /** Characters of all bad words together: each is tokenised twice. */
  badWordCharacters: 65_536,
  /** Width of a beam search: 2W logprobs a step, of which vLLM gives 20. */
  beamWidth: 10,
  /** Prompt logprobs, prompt tokens times entries a token: they are held until the request completes. */
  promptLogprobEntries: 1_048_576,
  /** Logprobs of replies, over all choices of one answer, where a token has more than the default: some 100 MB of JSON. */
  replyLogprobEntries: 1_048_576,
  /** Tokens of prompts that an answer repeats, over all choices: some 100 MB of JSON. */
  repeatedPromptTokens: 16_777_216,
} as const;
