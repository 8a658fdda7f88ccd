import type { GenerateRequest } from '@trainyard/generation';

/** A request as JSON, which has no whole numbers of 64 bits: the seed is text. A host takes it in one piece, and not property by property. */
export function requestText(request: GenerateRequest): string {
  const { sampling } = request;
  return JSON.stringify({ ...request, sampling: { ...sampling, seed: sampling.seed?.toString() ?? null } });
}

/** The other way round. @param text is trusted: this service wrote it */
export function readRequest(text: string): GenerateRequest {
  const request = JSON.parse(text) as GenerateRequest & { sampling: { seed: string | null } };
  const { seed } = request.sampling;
  return { ...request, sampling: { ...request.sampling, seed: seed === null ? null : BigInt(seed) } };
}
