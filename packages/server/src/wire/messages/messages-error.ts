import type { ErrorBody, MessagesError, MessagesErrorType } from '@trainyard/protocol';

/** An error as clients of the Anthropic API read it. @param status of the answer; null in a stream */
export function toMessagesError(body: ErrorBody, requestId: string, status: number | null): MessagesError {
  const { message, param, code } = body.error;
  return {
    type: 'error',
    error: { type: typeOf(body, status), message, param, code },
    detail: body.detail,
    request_id: requestId,
  };
}

function typeOf({ error: { type } }: ErrorBody, status: number | null): MessagesErrorType {
  if (status === 413) return 'request_too_large';
  if (status === 429) return 'rate_limit_error';
  switch (type) {
    case 'conflict_error':
      return 'invalid_request_error';
    case 'server_error':
      return 'api_error';
    default:
      return type;
  }
}
