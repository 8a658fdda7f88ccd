/** Default of the setting `maxLogprobs`, as in vLLM. */
export const DEFAULT_MAX_LOGPROBS = 20;
