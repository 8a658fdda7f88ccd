/** Limits of the work and memory of one request, checked before anything is built from its values. */
export const REQUEST_LIMITS = {
  /** Choices: the maximum of the engine's setting. vLLM's limit. */
  choices: 16_384,
  stopStrings: 4,
  /** Total characters of stop strings: each becomes a state. */
  stopCharacters: 16_384,
  stopTokenIds: 4096,
  /** Scored at every step. vLLM's limit. */
  logprobTokenIds: 128,
  badWords: 1024,
  /** Total characters of bad words: each is tokenised twice. */
  badWordCharacters: 65_536,
  /** Width of a beam search: 2W logprobs per step, of which vLLM gives 20. */
  beamWidth: 10,
  /** Prompt logprobs, prompt tokens times entries per token: held until the request completes. */
  promptLogprobEntries: 1_048_576,
  /**
   * Logprobs of replies, over all choices of an answer, if a token has more than the default: about 100 MB of
   * JSON.
   */
  replyLogprobEntries: 1_048_576,
  /** Prompt tokens repeated in an answer, over all choices: about 100 MB of JSON. */
  repeatedPromptTokens: 16_777_216,
} as const;
