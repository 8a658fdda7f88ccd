import type { ErrorBody, MessagesError, MessagesErrorType } from '@trainyard/protocol';

/** True if the client expects the form of the Anthropic API. */
export function speaksAnthropic({ headers }: { readonly headers: Readonly<Record<string, unknown>> }): boolean {
  return headers['anthropic-version'] !== undefined;
}

/** Converts an error to the Anthropic API's form. @param status of the answer; null in a stream */
export function toMessagesError(body: ErrorBody, requestId: string, status: number | null): MessagesError {
  const { param, code } = body.error;
  const details = detailsOf(body);
  return {
    type: 'error',
    error: { type: typeOf(body, status), message: messageOf(body), param, code, ...details },
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

/** Clients recognise a too long conversation by this text, and shorten it. */
function messageOf({ error: { code, message } }: ErrorBody): string {
  if (code !== 'context_length_exceeded') return message;
  const [, limit] = /maximum context length is (\d+) tokens/.exec(message) ?? [];
  const [, sent] = /prompt contains (\d+) input tokens/.exec(message) ?? [];
  if (limit === undefined || sent === undefined) return `prompt is too long: ${message}`;
  return `prompt is too long: ${sent} tokens > ${Number(limit) - 1} maximum`;
}

/** After this refusal, clients that wanted the server to keep the conversation send it whole. */
function detailsOf({ error: { code, param } }: ErrorBody): Pick<MessagesError['error'], 'details'> {
  if (code !== 'request.unsupported' || param !== 'thread') return {};
  return { details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] } };
}
