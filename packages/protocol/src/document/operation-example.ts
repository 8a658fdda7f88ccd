/** An example call of an operation. A test checks each against the schemas and sends it to the routes. */
export interface OperationExample {
  /** A value for each parameter of the path. */
  readonly path?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string | number>>;
  /** A JSON body; the text of an upload that is text. */
  readonly body?: unknown;
  /** The answer with status 200, where it is JSON. */
  readonly answer?: unknown;
  /** One event of the stream. */
  readonly chunk?: unknown;
}
