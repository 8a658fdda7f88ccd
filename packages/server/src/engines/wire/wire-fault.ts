import type { EngineErrorCode } from '@trainyard/backend';
import type { FieldText, RequestErrorCode } from '@trainyard/protocol';

import { BackendFailure } from '../../faults/backend-failure.ts';
import { RequestError } from '../../faults/request-error.ts';

/** An error that a back end threw for whoever asked, as data. */
export type WireFault =
  | {
      readonly kind: 'backend';
      readonly code: EngineErrorCode;
      readonly text: FieldText;
      readonly param: string | null;
    }
  | {
      readonly kind: 'request';
      readonly code: RequestErrorCode;
      readonly message: string;
      readonly param: string | null;
      readonly headers: Readonly<Record<string, string>>;
    };

/** Null for an error that is told to nobody outside. */
export function toWireFault(error: unknown): WireFault | null {
  if (error instanceof BackendFailure) {
    const { code, text, param } = error;
    return { kind: 'backend', code, text, param };
  }
  if (error instanceof RequestError) {
    const { code, message, param, headers } = error;
    return { kind: 'request', code, message, param, headers };
  }
  return null;
}

export function fromWireFault(fault: WireFault): BackendFailure | RequestError {
  if (fault.kind === 'backend') return new BackendFailure(fault.code, fault.text, fault.param);
  const { code, message, param, headers } = fault;
  return new RequestError(code, message, { param, headers });
}
