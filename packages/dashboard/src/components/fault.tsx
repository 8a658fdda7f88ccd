import { TrainyardApiError, TrainyardConnectionError } from '@trainyard/sdk';

import { Notice } from './notice.tsx';
import { shownName } from './shown-name.ts';

/** An error message with the request id, for finding it in the service's log. */
export function Fault({ error }: { error: unknown }) {
  const requestId = error instanceof TrainyardApiError ? error.requestId : null;
  return (
    <Notice tone="bad">
      <span>{faultText(error)}</span>
      {requestId === null ? null : <small className="soft">Request {requestId}</small>}
    </Notice>
  );
}

/** The error's message for users. */
export function faultText(error: unknown): string {
  if (error instanceof TrainyardConnectionError) return 'The service does not answer: is it running?';
  const message = shownName(error instanceof Error ? error.message : String(error));
  // The status is already shown before the message.
  return error instanceof TrainyardApiError ? message.replace(/^\d{3}: /, '') : message;
}
