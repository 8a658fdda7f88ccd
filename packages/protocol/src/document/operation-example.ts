/** Example call of an operation. A test checks each against the schemas and sends it to the routes. */
export interface OperationExample {
  readonly path?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string | number>>;
  /** JSON body, or the text of an upload. */
  readonly body?: unknown;
  /** JSON answer with status 200. */
  readonly answer?: unknown;
  /** One event of the stream. */
  readonly chunk?: unknown;
}
