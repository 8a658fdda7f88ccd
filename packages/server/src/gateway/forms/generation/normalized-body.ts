/** Hook that normalises a body before its schema check. Not async, because it does not wait. */
export function normalizedBody(normalize: (body: unknown) => unknown) {
  return (request: { body: unknown }, _reply: unknown, done: () => void): void => {
    request.body = normalize(request.body);
    done();
  };
}
