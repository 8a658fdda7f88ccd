import type { ContentFormat } from '../contract/template-message.ts';
import type { ToolSupport } from '../tools/tool-support.ts';
import type { TurnSupport } from '../turns/turn-support.ts';

/** The second is about the template of the first. */
export type SandboxQuestion =
  | { kind: 'inspect'; source: string; probesTurns: boolean }
  | { kind: 'render'; variables: Record<string, unknown>; maxOutputCharacters: number };

/** One per question, and `ready` before the first. */
export type SandboxAnswer =
  | { kind: 'ready' }
  | { kind: 'traits'; contentFormat: ContentFormat; toolSupport: ToolSupport; turnSupport: TurnSupport | null }
  | { kind: 'text'; text: string }
  | { kind: 'failed'; reason: string };
