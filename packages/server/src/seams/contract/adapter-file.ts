import type { GenerateRequest } from '@trainyard/generation';

import type { InferenceRequest } from './backends.ts';

/** The request as whoever computes it on this machine takes it. @throws Error when nobody has looked for the file of its adapter */
export function withAdapterFile({ adapter, origin, ...fields }: InferenceRequest): GenerateRequest {
  const request = { ...fields, traceParent: origin?.traceParent ?? null };
  if (adapter === null) return { ...request, adapter };
  const { digest, path } = adapter;
  if (path === null) throw new Error(`the file of the adapter ${digest} was not looked for`);
  return { ...request, adapter: { digest, path } };
}
