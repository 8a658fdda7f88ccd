/** A hook before the check of a body by its schema: it checks what `normalize` makes of the body. No promise, as it waits for nothing. */
export function normalizedBody(normalize: (body: unknown) => unknown) {
  return (request: { body: unknown }, _reply: unknown, done: () => void): void => {
    request.body = normalize(request.body);
    done();
  };
}
