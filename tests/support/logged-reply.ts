/** A choice for rollouts that are logged, with the token ids 1, 2 … and the log-probability -1 of each. */
export function loggedReply(numTokens: number, content: string, finishReason: 'stop' | 'length' = 'stop'): object {
  const ids = Array.from({ length: numTokens }, (_, index) => index + 1);
  return {
    finish_reason: finishReason,
    index: 0,
    token_ids: ids,
    logprobs: { content: ids.map((id) => ({ token: `token_id:${id}`, logprob: -1 })) },
    message: { role: 'assistant', content },
  };
}
