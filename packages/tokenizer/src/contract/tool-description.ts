/** A tool of a request. */
export interface ToolDescription {
  type: 'function';
  function: {
    name: string;
    description?: string | null;
    /** JSON schema of the arguments; absent if there are none. */
    parameters?: Readonly<Record<string, unknown>> | null;
    [key: string]: unknown;
  };
}
