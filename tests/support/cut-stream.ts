import { expect } from 'vitest';

/** The only error of a stream that was cut midway: its last event except `[DONE]`. */
export async function errorOfCutStream(response: Response): Promise<{ code: string; type: string; message: string }> {
  const events = (await response.text()).trim().split('\n\n');
  expect(events.at(-1)).toBe('data: [DONE]');
  const errors = events.filter((event) => event.startsWith('data: {"error"'));
  expect(errors).toHaveLength(1);
  return (JSON.parse(errors[0]!.slice('data: '.length)) as { error: { code: string; type: string; message: string } })
    .error;
}

/** A long stream that has started: its head comes with its first token. */
export async function longStream(service: { url: string; apiKey: string }, model: string): Promise<Response> {
  const response = await fetch(`${service.url}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model,
      messages: [{ role: 'user', content: 'Count.' }],
      max_tokens: 4_000,
      ignore_eos: true,
      stream: true,
    }),
  });
  expect(response.status).toBe(200);
  return response;
}
