/** A tool as requests give it. */
export interface ToolDescription {
  type: 'function';
  function: {
    name: string;
    description?: string | null;
    /** JSON schema of the arguments; absent: there are none. */
    parameters?: Readonly<Record<string, unknown>> | null;
    [key: string]: unknown;
  };
}
