import type { ContentFormat } from '../contract/template-message.ts';
import type { ToolSupport } from '../tools/tool-support.ts';

/** What the process asks of a child. The second question is about the template of the first. */
export type SandboxQuestion =
  | { kind: 'inspect'; source: string; timeoutMs: number }
  | { kind: 'render'; variables: Record<string, unknown>; maxOutputCharacters: number };

/** What it answers: once to each question, and `ready` before the first. */
export type SandboxAnswer =
  | { kind: 'ready' }
  | { kind: 'traits'; contentFormat: ContentFormat; toolSupport: ToolSupport }
  | { kind: 'text'; text: string }
  | { kind: 'failed'; reason: string };
